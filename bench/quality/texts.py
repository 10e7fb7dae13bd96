"""What adaptation is worth: accuracy, log loss and calibration on small sets, beside peers.

    python -m bench.quality texts --rows 'tickets:*' --splits 5 --contestants lora,centroid

Contestants take turns on the same splits. Each result is stored at once in a file of JSON lines
(`--records`), which is committed, since all of them take hours: an interrupted run continues, and
a contestant that is added later is measured on the same splits. `--again` measures a contestant
with changed code anew. Rows of sets that took no part in any choice are measured by name:

    python -m bench.quality texts --rows 'subjects:*' --records docs/results/quality-left-out.jsonl
"""

import argparse
import fnmatch
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.quality.cases import rows_of
from bench.quality.contestants import REFERENCE, contestants, reasons
from bench.quality.goals import goals_of
from bench.quality.outcome import Contestant, scored
from bench.quality.pipeline import Pipeline
from bench.quality.plot import plot
from bench.quality.records import Records, Results, measured
from bench.quality.scores import summary
from bench.quality.turns import Data, Plan, results_of, turns
from bench.report import Columns, Report, console
from bench.rivals import Base
from bench.sets import load, unseen
from bench.sets.rows import ROWS, Row, draw
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner
from task import TextClassification

QUICK = Recipe(max_steps=2)
QUICK_ROWS = "tickets:1,tickets:4"
RECORDS = Path(__file__).parents[2] / "docs" / "results" / "quality.jsonl"


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

DATA = Data(draw, lambda name: load(name).digest)


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


def run(chosen: argparse.Namespace, path: Path) -> Sequence[Report]:
    """Measure contestants on paired splits."""
    rows = matching(chosen.rows or (QUICK_ROWS if chosen.quick else None))
    plan = Plan(rows, chosen.splits, QUICK if chosen.quick else Recipe())
    records = Records(path, chosen.again.split(","))
    with _all_contestants(RunnerSettings.from_environment()) as found:
        missing = reasons(found)
        for name, reason in missing.items():
            console.print(f"without {name}: {reason}", highlight=False)
        names = [name for name in named(chosen.contestants, found) if name in found]
        if not chosen.report:
            measured(turns(plan, DATA, {name: scored(found[name]) for name in names}), records)
    results = results_of(plan, DATA, records)
    if chosen.output is not None:
        plot(results, plan.rows, chosen.output.with_suffix(".png"))
    goals = [goals_of(plan.rows, results, name) for name in chosen.judge.split(",")]
    return [report(plan, results, {"skipped": missing}), *goals]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", help="globs of row names, with commas between")
    parser.add_argument("--contestants", default="", help="names, with commas between (all)")
    parser.add_argument("--again", default="", help="contestants whose results are forgotten")
    parser.add_argument("--report", action="store_true", help="measure nothing, sum up records")
    parser.add_argument("--judge", default="auto", help="contestants whose goals are checked")


def matching(globs: str | None) -> Sequence[Row]:
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


def named(given: str, found: Mapping[str, Contestant]) -> list[str]:
    """Return the named contestants; without names, all that can run.

    Raises:
        SystemExit: a name is not known.
    """
    names = given.split(",") if given else list(found)
    known = [*found, *reasons(found)]
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(f"no contestant is named {unknown[0]!r}. Choose of: {', '.join(known)}.")
    return names


PIPELINE = Pipeline(__doc__, 20, RECORDS, _options, run)
