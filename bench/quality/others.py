"""What `auto` is worth on pictures and on numbers, beside a linear model of frozen features.

    make kinds && apt-get install dataset-fashion-mnist
    python -m bench.quality others --rows 'clothes:*' --splits 3

Contestants take turns on the same splits: the base, `linear` (scikit-learn's logistic or ridge
regression of features computed once), `own` (the task's own method, 40 steps) and `auto`. Results
are stored like those of `texts`, so an interrupted run continues.
"""

import argparse
import contextlib
import dataclasses
import fnmatch
import math
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.quality.goals import LEAST_DIFFERENCE, MOST_CALIBRATION_ERROR, Verdict
from bench.quality.models import BASE, LINEAR, REFERENCE, Model
from bench.quality.pipeline import Pipeline
from bench.quality.records import Records, Results, measured
from bench.quality.scores import BySplit, Interval, better_of, differences
from bench.quality.subjects import ROWS, SUBJECTS
from bench.quality.turns import Data, Plan, results_of, turns
from bench.report import Columns, Report, console
from bench.sets.rows import Row
from cog_adapt.runner.config import AUTO, Recipe, RunnerSettings
from cog_adapt.runner.model_runner import ModelRunner

QUICK = Recipe(max_steps=2)
QUICK_ROWS = "clothes:1,diabetes:8,ratings:8"
RECORDS = Path(__file__).parents[2] / ".data" / "quality-others.jsonl"
MOST_TIMES_LINEAR = 2.0  # of CPU time, at 8 pictures a label
_TIMED = "clothes:8"
_FEWEST_TESTED, _FEWEST_EXAMPLES = 300, 4  # with fewer, a calibration error is not judged

COLUMNS: Columns = {
    "row": str,
    "contestant": str,
    "splits": str,
    "accuracy or R²": str,
    "better": str,
    "above better": str,
    "log loss": str,
    "calibration error": str,
    "CPU seconds": "{:.2f}".format,
    "times linear's": "{:.2f}".format,
}
GOALS: Columns = {
    "row": str,
    f"above better >= {LEAST_DIFFERENCE}": str,
    "log loss - base's <= 0": str,
    f"calibration error <= {MOST_CALIBRATION_ERROR}": str,
    f"times linear's <= {MOST_TIMES_LINEAR:g}": str,
}
DATA = Data(
    lambda row, seed: SUBJECTS[row.set_name].draw(row, seed), lambda name: SUBJECTS[name].digest()
)


def report(plan: Plan, results: Results, facts: Mapping[str, Any]) -> Report:
    """Sum up every row and contestant."""
    table = [_summary(row, scores, name) for row, scores in results.items() for name in scores]
    settings = {"splits": plan.splits, "recipe": str(plan.recipe), **facts}
    title = "Quality of adaptation on pictures and numbers: paired splits"
    return Report(title, COLUMNS, table, settings)


def _summary(row: str, scores: Mapping[str, BySplit], name: str) -> dict[str, Any]:
    own, better = scores[name], better_of(scores, REFERENCE)
    above = differences(own, scores[better]) if better else []
    return {
        "row": row,
        "contestant": name,
        "splits": len(own),
        "accuracy or R²": Interval.of([each.accuracy for each in own.values()]),
        "better": better,
        "above better": Interval.of(above) if above else None,
        "log loss": _interval([each.log_loss for each in own.values()]),
        "calibration error": _interval([each.calibration_error for each in own.values()]),
        "CPU seconds": statistics.median(each.seconds for each in own.values()),
        "times linear's": _times_linear(scores, name),
    }


def _interval(values: Sequence[float]) -> Interval | None:
    """Return the interval; None for numbers, which have no such score."""
    return None if any(map(math.isnan, values)) else Interval.of(values)


def _times_linear(scores: Mapping[str, BySplit], name: str) -> float | None:
    own, linear = scores[name], scores.get(LINEAR, {})
    ratios = [own[split].seconds / linear[split].seconds for split in own.keys() & linear]
    return statistics.median(ratios) if ratios else None


def goals_of(plan: Plan, results: Results, name: str = AUTO) -> Report:
    """Make the table of a contestant's goals."""
    rows = [_goals(row, results[row.name], name) for row in plan.rows if results[row.name]]
    missed = [r["row"] for r in rows if any(not v.met for v in r.values() if type(v) is Verdict)]
    facts = {"rows that miss a goal": ", ".join(missed) or "none"}
    return Report(f"Goals of {name}", GOALS, rows, facts)


def _goals(row: Row, scores: Mapping[str, BySplit], name: str) -> dict[str, Any]:
    own, base, better = scores[name], scores.get(BASE, {}), better_of(scores, REFERENCE)
    above = differences(own, scores[better]) if better else []
    losses = [own[split].log_loss - base[split].log_loss for split in own.keys() & base]
    errors = [each.calibration_error for each in own.values()]
    is_judged = row.set_name == "clothes" and row.fewest >= _FEWEST_EXAMPLES
    times = _times_linear(scores, name) if row.name == _TIMED else None
    found = (
        (statistics.fmean(above), lambda mean: mean >= LEAST_DIFFERENCE) if above else None,
        (statistics.fmean(losses), lambda mean: mean <= 0)
        if losses and not math.isnan(losses[0])
        else None,
        (statistics.fmean(errors), lambda mean: mean <= MOST_CALIBRATION_ERROR)
        if is_judged
        else None,
        (times, lambda ratio: ratio <= MOST_TIMES_LINEAR) if times else None,
    )
    verdicts = [each and Verdict(each[0], each[1](each[0])) for each in found]
    return dict(zip(GOALS, [row.name, *verdicts], strict=True))


def _measure(plan: Plan, settings: RunnerSettings, records: Records) -> dict[str, str]:
    """Measure each set with all needs installed; return the missing needs of the others."""
    skipped = {}
    for name in dict.fromkeys(row.set_name for row in plan.rows):
        subject = SUBJECTS[name]
        if lacking := subject.missing:
            skipped[name] = f"not installed: {', '.join(lacking)}"
            continue
        own = dataclasses.replace(plan, rows=[r for r in plan.rows if r.set_name == name])
        with contextlib.ExitStack() as stack:  # no adapter of an earlier run must be reused
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            apart = settings.model_copy(update={"weights_dir": folder, "feature_bytes": 1})
            runner = stack.enter_context(ModelRunner(subject.task(), apart))
            measured(turns(own, DATA, Model.of(subject.own, runner).contestants), records)
    return skipped


def run(chosen: argparse.Namespace, path: Path) -> Sequence[Report]:
    """Measure contestants on paired splits."""
    globs = chosen.rows or (QUICK_ROWS if chosen.quick else "*")
    rows = [row for row in ROWS if any(fnmatch.fnmatch(row.name, g) for g in globs.split(","))]
    plan = Plan(rows, chosen.splits, QUICK if chosen.quick else Recipe())
    records = Records(path, chosen.again.split(","))
    skipped = _measure(plan, RunnerSettings.from_environment(), records)
    for name, reason in skipped.items():
        console.print(f"without {name}: {reason}", highlight=False)
    there = dataclasses.replace(plan, rows=[r for r in rows if r.set_name not in skipped])
    results = results_of(there, DATA, records)
    goals = goals_of(there, results)
    return [report(plan, results, {"skipped": skipped, **goals.settings}), goals]


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", help="globs of row names, with commas between")
    parser.add_argument("--again", default="", help="contestants whose results are forgotten")


PIPELINE = Pipeline(__doc__, 10, RECORDS, _options, run)
