"""Whether the bounded automatic rate costs accuracy: LoRA on MiniLM, on the committed sets.

    python -m bench.bounded_rate --output docs/results/bounded-rate.json

The bound acts only where steps multiply the loss: without such steps a run is the run at the usual
rate, bit for bit. Where it has acted, the split is adapted to once more at the usual rate, as a
caller's own rate, which has no bound.
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.data import Split
from bench.report import Columns, Report, Spread, arguments, console, share
from bench.sets.rows import ROWS, Row, draw
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.model_runner import ModelRunner
from task import TextClassification

SETS = ("tickets", "intents")  # their texts are in this repository
SPLITS = 2
COLUMNS: Columns = {
    "row": str,
    "splits": str,
    "bounded": str,
    "accuracy": share,
    "accuracy at the usual rate": share,
}
_LORA = Recipe(method="lora")


def measure(runner: ModelRunner, rows: list[Row], splits: int, recipe: Recipe) -> Report:
    """Adapt to each split at the automatic rate, and again without the bound where it acted."""
    found = []
    for row in rows:
        scores = [_scored(runner, draw(row, seed), recipe) for seed in range(splits)]
        bounded, usual, acted = zip(*scores, strict=True)
        console.print(f"{row.name}: the bound acted {sum(acted)} times")
        found.append(
            {
                "row": row.name,
                "splits": str(splits),
                "bounded": str(sum(acted)),
                "accuracy": Spread.of(bounded),
                "accuracy at the usual rate": Spread.of(usual),
            }
        )
    settings = {"recipe": str(recipe)}
    return Report("LoRA at the bounded automatic rate, and at the usual", COLUMNS, found, settings)


def _scored(runner: ModelRunner, split: Split, recipe: Recipe) -> tuple[float, float, bool]:
    """Return the accuracy at the bounded rate and at the usual one, and whether they differ."""
    learned = runner.adapt(split.train, recipe)
    accuracy = _accuracy(runner, split, learned.adapter)
    taken_back = learned.report.taken_back
    if not taken_back:
        return accuracy, accuracy, False
    usual = replace(recipe, learning_rate=taken_back[0].learning_rate)
    return accuracy, _accuracy(runner, split, runner.adapt(split.train, usual).adapter), True


def _accuracy(runner: ModelRunner, split: Split, adapter: Any) -> float:  # noqa: ANN401
    answers = runner.predict(split.texts, adapter)
    return split.accuracy([answer["label"] for answer in answers])


def _add_rows(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", nargs="+", help="such as tickets:4; default: all")


def main() -> None:
    """Compare the bounded automatic learning rate with the usual one."""
    chosen = arguments(main.__doc__, _add_rows)
    rows = [row for row in ROWS if row.set_name in SETS]
    rows = [row for row in rows if row.name in chosen.rows] if chosen.rows else rows
    rows, splits = (rows[:1], 1) if chosen.quick else (rows, SPLITS)
    recipe = replace(_LORA, max_steps=2) if chosen.quick else _LORA
    with tempfile.TemporaryDirectory() as folder:  # no adapter of an earlier run must be reused
        settings = RunnerSettings.from_environment().model_copy(
            update={"weights_dir": Path(folder)}
        )
        with ModelRunner(TextClassification(), settings) as runner:
            report = measure(runner, rows, splits, recipe)
    report.publish(choose_precision(settings), chosen.output)


if __name__ == "__main__":
    main()
