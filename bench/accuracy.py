"""Held-out accuracy: label names alone, a few examples in a request, a training run.

The training run calls the runner's `train` as train.py does: a tenth of the examples is held out,
and the adapter with the best score on that tenth is returned.
"""

import asyncio
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import data
from bench.report import Columns, Report, Spread, arguments, clock, interleave, seconds, share
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter, load_adapter
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.training import train
from task import TextClassification

SEEDS = 3
COLUMNS: Columns = {"weights": str, "held-out accuracy": share, "training, s": seconds}

Scored = tuple[float, float]
"""Seconds of training, and the accuracy on the test glosses."""


@dataclass(frozen=True)
class Sizes:
    """The amount of data, and the steps of each run."""

    few: int = 8
    few_steps: int = Recipe().max_steps
    full: int = 400
    full_steps: int = 400
    test: int = data.TEST_PER_LABEL


QUICK = Sizes(few=2, few_steps=3, full=10, full_steps=3, test=3)


class Accuracy:
    """Scores the three ways to get weights, each on the splits of a seed."""

    def __init__(self, runner: ModelRunner, sizes: Sizes) -> None:
        self.runner = runner
        self.sizes = sizes
        self.device = choose_precision(runner.settings).device

    def zero_shot(self, seed: int) -> Scored:
        """Score the similarity of the gloss and each label's name."""
        return 0.0, self._accuracy(seed, None)

    def few_shot(self, seed: int) -> Scored:
        """Score a request with a few examples of each label, and the default recipe."""
        began = clock(self.device)
        recipe = Recipe(max_steps=self.sizes.few_steps, seed=seed)
        adapter = self.runner.adapt(data.split(self.sizes.few, seed).train, recipe).adapter
        return clock(self.device) - began, self._accuracy(seed, adapter)

    def trained(self, seed: int) -> Scored:
        """Score `train` on the full split."""
        examples = _json_lines(data.split(self.sizes.full, seed).train)
        recipe = Recipe(max_steps=self.sizes.full_steps, hold_out=0.1, seed=seed)
        began = clock(self.device)
        done = asyncio.run(train(self.runner, Request(examples=examples, recipe=recipe)))
        took = clock(self.device) - began
        return took, self._accuracy(seed, load_adapter(done.weights))

    def _accuracy(self, seed: int, adapter: Adapter | None) -> float:
        split = data.split(0, seed, self.sizes.test)
        labels = () if adapter else data.LABELS
        answers = self.runner.predict(split.texts, adapter, labels)
        return split.accuracy([answer["label"] for answer in answers])


def measure(settings: RunnerSettings, sizes: Sizes, seeds: int) -> Report:
    """Run the three ways on each seed."""
    with ModelRunner(TextClassification(), settings) as runner:
        ways = Accuracy(runner, sizes)
        results = interleave(
            {
                "zero-shot: label names only": ways.zero_shot,
                f"{sizes.few} examples a label, {sizes.few_steps} steps at predict": ways.few_shot,
                f"train: {sizes.full} a label, {sizes.full_steps} steps": ways.trained,
            },
            seeds,
        )
    rows = [
        {
            "weights": name,
            "held-out accuracy": Spread.of([accuracy for _, accuracy in scored]),
            "training, s": Spread.of([took for took, _ in scored]),
        }
        for name, scored in results.items()
    ]
    facts = {
        "seeds": seeds,
        "test glosses": sizes.test * len(data.LABELS),
        **data.facts(),
    }
    return Report("Held-out accuracy, WordNet noun glosses", COLUMNS, rows, facts)


def main() -> None:
    """Measure held-out accuracy on WordNet's noun glosses."""
    chosen = arguments(main.__doc__)
    sizes, seeds = (QUICK, 1) if chosen.quick else (Sizes(), SEEDS)
    with tempfile.TemporaryDirectory() as folder:  # no adapter of an earlier run must be reused
        settings = RunnerSettings.from_environment().model_copy(
            update={"weights_dir": Path(folder)}
        )
        report = measure(settings, sizes, seeds)
    report.publish(choose_precision(settings), chosen.output)


def _json_lines(examples: Sequence[Example]) -> str:
    return "\n".join(json.dumps({"text": e.input, "label": e.target}) for e in examples)


if __name__ == "__main__":
    main()
