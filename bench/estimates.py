"""Measures whether `auto` estimates itself rightly: the accuracy that it expects, and the real one.

A split's estimate is `report.decision`'s, from models that have seen half of the examples; its
standard error says how far off it may be. The test texts come from the sets of `bench/sets`.
"""

import dataclasses
import math
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.data import Split
from bench.report import Columns, Report, arguments
from bench.rivals import labels_of
from bench.sets.rows import ROWS, draw
from cog_adapt import ModelRunner, Recipe, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from task import TextClassification

MEASURED = ("tickets:4", "tickets:8", "tickets:8 noise", "spam:8", "reviews:8", "intents:4")
SPLITS = 10
COLUMNS: Columns = {
    "row": str,
    "splits": str,
    "expected": "{:.3f}".format,
    "found": "{:.3f}".format,
    "apart (rms)": "{:.3f}".format,
    "error said": "{:.3f}".format,
    "within one error": "{:.0%}".format,
    "within two": "{:.0%}".format,
}


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The expected accuracy, with its standard error, and the accuracy on the test texts."""

    expected: float
    error: float
    found: float

    @property
    def apart(self) -> float:
        """The difference of the two; above 0 if too much was expected."""
        return self.expected - self.found


def estimate(runner: ModelRunner, split: Split, recipe: Recipe) -> Estimate:
    """Adapt to a split's examples as a request does, and answer its test texts."""
    labels = labels_of(split.train)
    adapted = runner.adapt(split.train, recipe)
    decision = adapted.report.decision
    assert decision is not None
    assert decision.after is not None
    answers = runner.predict(split.texts, adapted.adapter, () if adapted.adapter else labels)
    right = [answer["label"] == row.target for answer, row in zip(answers, split.test, strict=True)]
    return Estimate(decision.after.score, decision.after.error, statistics.fmean(right))


def row_of(name: str, found: Sequence[Estimate]) -> dict[str, Any]:
    """Sum up the estimates of a row's splits."""
    return {
        "row": name,
        "splits": len(found),
        "expected": statistics.fmean(each.expected for each in found),
        "found": statistics.fmean(each.found for each in found),
        "apart (rms)": math.sqrt(statistics.fmean(each.apart**2 for each in found)),
        "error said": statistics.fmean(each.error for each in found),
        "within one error": _within(found, 1),
        "within two": _within(found, 2),
    }


def _within(found: Sequence[Estimate], errors: int) -> float:
    return statistics.fmean(abs(each.apart) <= errors * each.error for each in found)


def measure(settings: RunnerSettings, names: Sequence[str], splits: int, steps: int) -> Report:
    """Estimate every row's splits."""
    by_name = {row.name: row for row in ROWS}
    recipes = [Recipe(method="auto", max_steps=steps, seed=number) for number in range(splits)]
    with ModelRunner(TextClassification(), settings) as runner:
        found = {
            name: [estimate(runner, draw(by_name[name], r.seed), r) for r in recipes]
            for name in names
        }
    everything = [each for row in found.values() for each in row]
    rows = [row_of(name, row) for name, row in found.items()]
    rows.append(row_of("all", everything))
    title = "The accuracy that auto expects, beside that of the test texts"
    return Report(title, COLUMNS, rows, {"splits": splits, "steps": steps})


def main() -> None:
    """Measure whether the accuracy that `auto` expects of itself comes true."""
    chosen = arguments(main.__doc__)
    names, splits, steps = (MEASURED[:1], 1, 2) if chosen.quick else (MEASURED, SPLITS, 40)
    with tempfile.TemporaryDirectory() as folder:  # no adapter of an earlier run must be reused
        settings = RunnerSettings.from_environment().model_copy(
            update={"weights_dir": Path(folder)}
        )
        measure(settings, names, splits, steps).publish(choose_precision(settings), chosen.output)


if __name__ == "__main__":
    main()
