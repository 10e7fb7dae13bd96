"""What adaptation is worth: accuracy, log loss and calibration on small sets, beside peers.

    python -m bench.quality --rows 'tickets:*' --splits 5 --contestants zero-shot,lora,centroid

Contestants take turns on the same splits. Each result is kept at once in a file of JSON lines
(`--records`), which is committed, since all of them take hours: a run that was cut off goes on, and
a contestant that is added later is measured on the same splits. `--again` measures a contestant
anew whose code has changed. Rows of sets that took no part in any choice are measured by name:

    python -m bench.quality --rows 'subjects:*' --records docs/results/quality-left-out.jsonl
"""

import argparse
import dataclasses
import fnmatch
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.left_out.cases import rows_of
from bench.quality_contestants import REFERENCE, Contestant, contestants, reasons
from bench.quality_goals import goals_of
from bench.quality_plot import plot
from bench.quality_records import Key, Records
from bench.quality_scores import BySplit, score, summary
from bench.report import Columns, Report, arguments, console
from bench.rivals import Base
from bench.sets import load, unseen
from bench.sets.rows import ROWS, Row, draw
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.model_runner import ModelRunner
from task import TextClassification

SPLITS = 20
QUICK = Recipe(max_steps=2)
QUICK_ROWS = "tickets:1,tickets:4"
RECORDS = Path(__file__).parent.parent / "docs" / "results" / "quality.jsonl"


COLUMNS: Columns = {
    "row": str,
    "contestant": str,
    "splits": str,
    "accuracy": str,
    "better": str,
    "accuracy - better": str,
    "log loss": str,
    "log loss above zero-shot's": "{:.0%}".format,
    "calibration error": str,
    "seconds": "{:.2f}".format,
}

Results = Mapping[str, Mapping[str, BySplit]]
"""Scores by row, contestant and split."""


@dataclass(frozen=True)
class Plan:
    """What is measured: rows, how many splits of each, and the recipe of whoever takes steps."""

    rows: Sequence[Row]
    splits: int
    recipe: Recipe


def measure(plan: Plan, chosen: Mapping[str, Contestant], records: Records) -> None:
    """Run what has no record yet, all rows of a split before the next split."""
    for split in range(plan.splits):
        for row in plan.rows:
            _measure_split(row, split, plan.recipe, chosen, records)


def _measure_split(
    row: Row, number: int, recipe: Recipe, chosen: Mapping[str, Contestant], records: Records
) -> None:
    """Run the contestants that have no record of this split, each in turn the first."""
    digest = load(row.set_name).digest
    names = list(chosen)
    first = number % len(names)
    keys = [Key(row.name, number, name, digest) for name in names[first:] + names[:first]]
    missing = [key for key in keys if key not in records]
    if not missing:
        return
    split = draw(row, number)
    targets = [example.target for example in split.test]
    for key in missing:
        outcome = chosen[key.contestant](split, dataclasses.replace(recipe, seed=number))
        scores = score(outcome.probabilities, outcome.labels, targets, outcome.seconds)
        records.add(key, scores)


def results_of(plan: Plan, records: Records) -> Results:
    """Return all scores of the plan's rows, of earlier runs' contestants too."""
    return {
        row.name: records.of_row(row.name, load(row.set_name).digest, plan.splits)
        for row in plan.rows
    }


def report(plan: Plan, results: Results, facts: Mapping[str, Any]) -> Report:
    """Sum up every row and contestant."""
    rows = [
        {"row": row, "contestant": name, **summary(scores, name, REFERENCE)}
        for row, scores in results.items()
        for name in scores
    ]
    settings = {
        "splits": plan.splits,
        "recipe": str(plan.recipe),
        **{f"{row.set_name} sha256": load(row.set_name).digest for row in plan.rows},
        **facts,
    }
    return Report("Quality of adaptation: paired splits of small sets", COLUMNS, rows, settings)


@contextmanager
def _all_contestants(settings: RunnerSettings) -> Iterator[dict[str, Contestant]]:
    with tempfile.TemporaryDirectory() as folder:  # no adapter of an earlier run must be reused
        apart = settings.model_copy(update={"weights_dir": Path(folder)})
        with ModelRunner(TextClassification(), apart) as runner:
            base = Base.load(TextClassification(), runner.precision)
            yield contestants(runner, base)


def main() -> None:
    """Measure contestants on paired splits; go on where an earlier run was cut off."""
    chosen = arguments(main.__doc__, _options)
    rows = _matching(chosen.rows or (QUICK_ROWS if chosen.quick else None))
    splits = chosen.splits or (1 if chosen.quick else SPLITS)
    plan = Plan(rows, splits, QUICK if chosen.quick else Recipe())
    settings = RunnerSettings.from_environment()
    with _all_contestants(settings) as found, tempfile.TemporaryDirectory() as scratch:
        for name, reason in reasons(found).items():
            console.print(f"without {name}: {reason}", highlight=False)
        path = Path(scratch) / "quick.jsonl" if chosen.quick else chosen.records
        records = Records(path, chosen.again.split(","))
        names = _named(chosen.contestants, found)
        if not chosen.report:
            measure(plan, {name: found[name] for name in names if name in found}, records)
        results = results_of(plan, records)
    precision = choose_precision(settings)
    report(plan, results, {"skipped": reasons(found)}).publish(precision, chosen.output)
    for name in chosen.judge.split(","):
        goals_of(plan.rows, results, name).publish(precision, None)
    if chosen.output is not None:
        plot(results, plan.rows, chosen.output.with_suffix(".png"))


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", help="globs of row names, with commas between")
    parser.add_argument("--splits", type=int, help=f"paired splits of each row ({SPLITS})")
    parser.add_argument("--contestants", default="", help="names, with commas between (all)")
    parser.add_argument("--again", default="", help="contestants whose results are forgotten")
    parser.add_argument("--report", action="store_true", help="measure nothing, sum up records")
    parser.add_argument("--judge", default="auto", help="contestants whose goals are checked")
    parser.add_argument("--records", type=Path, default=RECORDS, help="results, one a line")


def _matching(globs: str | None) -> Sequence[Row]:
    """Return the rows whose names match one of the globs, of unseen sets too; by default ROWS.

    Raises:
        SystemExit: no row matches.
    """
    if globs is None:
        return ROWS
    known = (*ROWS, *rows_of(unseen.NAMES))
    found = [r for r in known if any(fnmatch.fnmatch(r.name, g) for g in globs.split(","))]
    if not found:
        names = ", ".join(row.name for row in known)
        raise SystemExit(f"no row matches {globs!r}. Choose of: {names}.")
    return found


def _named(given: str, found: Mapping[str, Contestant]) -> list[str]:
    """Return the contestants that were asked for; all that can run if none was.

    Raises:
        SystemExit: a name is not known.
    """
    names = given.split(",") if given else list(found)
    known = [*found, *reasons(found)]
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no contestant is named {unknown[0]!r}. Choose of: {', '.join(known)}.")
    return names


if __name__ == "__main__":
    main()
