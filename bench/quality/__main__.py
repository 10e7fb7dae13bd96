"""Runs one pipeline of the quality benchmark; an interrupted run continues.

python -m bench.quality texts --rows 'tickets:*' --splits 5
python -m bench.quality left-out --help
"""

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bench.quality import choice, left_out, left_out_others, others, texts
from bench.quality.pipeline import Pipeline
from bench.report import arguments
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

PIPELINES: Mapping[str, Pipeline] = {
    "texts": texts.PIPELINE,
    "others": others.PIPELINE,
    "left-out": left_out.PIPELINE,
    "left-out-others": left_out_others.PIPELINE,
    "choice": choice.PIPELINE,
}


def main() -> None:
    """Measure all results without a record, and publish the tables."""
    name, *options = sys.argv[1:] or ["nothing"]
    if name not in PIPELINES:
        raise SystemExit(f"{name} is no pipeline. Choose of: {', '.join(PIPELINES)}.")
    pipeline = PIPELINES[name]

    def add(parser: argparse.ArgumentParser) -> None:
        parser.prog = f"bench.quality {name}"
        parser.add_argument("--splits", type=int, help=f"of each row ({pipeline.splits})")
        parser.add_argument("--records", type=Path, default=pipeline.records, help="one a line")
        pipeline.options(parser)

    chosen = arguments(pipeline.text, add, options)
    chosen.splits = chosen.splits or (1 if chosen.quick else pipeline.splits)
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "quick.jsonl" if chosen.quick else chosen.records
        first, *more = pipeline.run(chosen, path)
    precision = choose_precision(RunnerSettings.from_environment())
    first.publish(precision, chosen.output)
    for each in more:
        each.publish(precision, None)


if __name__ == "__main__":
    main()
