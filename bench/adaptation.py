"""Adapt and predict, compared with the two usual implementations (bench/rivals.py).

All take the same steps: the same batches, LoRA of the same layers, rank and scale, the head from
the labels' names, the same optimizer, rate and clipping. Dropout is where each puts it: everywhere
in the rivals (`model.train()`), around the trained tensors in the runner. A round uses one seed for
the data and all draws; the contestants take turns in beginning a round.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench import data
from bench.report import (
    Columns,
    Report,
    Spread,
    arguments,
    clock,
    interleave,
    ratio,
    seconds,
    share,
)
from bench.rivals import Answer, Base, plain_loop, trainer
from cog_adapt.runner.config import Precision, Recipe, RunnerSettings
from cog_adapt.runner.device import choose_precision
from cog_adapt.runner.examples import Example
from cog_adapt.runner.model_runner import ModelRunner
from task import TextClassification

EXAMPLES_PER_LABEL = 8
ROUNDS = 5
PLAIN = "plain loop + peft"
COLUMNS: Columns = {
    "contestant": str,
    "adapt, s": seconds,
    "predict, s": seconds,
    "time / plain": ratio,
    "accuracy": share,
    "accuracy - plain": share,
}

Adapt = Callable[[Sequence[Example], Recipe], Answer]


@dataclass(frozen=True)
class Outcome:
    """The result of one contestant with one seed; both times in seconds."""

    adapt: float
    predict: float
    accuracy: float


@dataclass(frozen=True)
class Race:
    """One turn of a contestant: adapt to the seed's examples, then label its test glosses."""

    precision: Precision
    steps: int
    test_per_label: int

    def run(self, adapt: Adapt, seed: int) -> Outcome:
        """Time both halves."""
        split = data.split(EXAMPLES_PER_LABEL, seed, self.test_per_label)
        device = self.precision.device
        began = clock(device)
        answer = adapt(split.train, Recipe(max_steps=self.steps, seed=seed))
        adapted = clock(device)
        answers = answer(split.texts)
        ended = clock(device)
        return Outcome(adapted - began, ended - adapted, split.accuracy(answers))


def runner_way(runner: ModelRunner, blocks: int = 0) -> Adapt:
    """Make a contestant of the runner, used as a request uses it."""

    def adapt(examples: Sequence[Example], recipe: Recipe) -> Answer:
        adapter = runner.adapt(examples, replace(recipe, blocks=blocks)).adapter
        return lambda texts: [answer["label"] for answer in runner.predict(texts, adapter)]

    return adapt


def contestants(runner: ModelRunner, precision: Precision) -> dict[str, Adapt]:
    """Make all contestants, with the learning rate that the runner chooses for this model."""
    task = TextClassification()
    base = Base.load(task, precision)
    one_step = Recipe(max_steps=1)
    rate = runner.adapt(task.probe(), one_step).report.learning_rate
    return {
        "runner": runner_way(runner),
        "runner, last block": runner_way(runner, blocks=1),
        PLAIN: lambda examples, recipe: plain_loop(base, examples, recipe, rate),
        "Trainer + peft": lambda examples, recipe: trainer(base, examples, recipe, rate),
    }


def race(settings: RunnerSettings, steps: int, rounds: int, per_label: int) -> Report:
    """Warm up every contestant with two steps, then run the rounds."""
    precision = choose_precision(settings)
    warm_up, measured = Race(precision, 2, 1), Race(precision, steps, per_label)
    with ModelRunner(TextClassification(), settings) as runner:
        ways = contestants(runner, precision)
        for adapt in ways.values():
            warm_up.run(adapt, seed=rounds)
        outcomes = interleave({name: _turn(measured, way) for name, way in ways.items()}, rounds)
    facts = {
        "rounds": rounds,
        "examples": EXAMPLES_PER_LABEL * len(data.LABELS),
        "test glosses": per_label * len(data.LABELS),
        "recipe": str(Recipe(max_steps=steps)),
        **data.facts(),
    }
    return Report("Adapt and predict, WordNet noun glosses", COLUMNS, rows(outcomes), facts)


def rows(outcomes: Mapping[str, list[Outcome]]) -> list[dict[str, Any]]:
    """Make a row for each contestant; comparisons are made within each round."""
    table = []
    for name, results in outcomes.items():
        pairs = list(zip(results, outcomes[PLAIN], strict=True))
        columns = {
            "adapt, s": [o.adapt for o in results],
            "predict, s": [o.predict for o in results],
            "time / plain": [(o.adapt + o.predict) / (p.adapt + p.predict) for o, p in pairs],
            "accuracy": [o.accuracy for o in results],
            "accuracy - plain": [o.accuracy - p.accuracy for o, p in pairs],
        }
        spreads = {column: Spread.of(values) for column, values in columns.items()}
        table.append({"contestant": name, **spreads})
    return table


def _turn(race: Race, adapt: Adapt) -> Callable[[int], Outcome]:
    return lambda seed: race.run(adapt, seed)


def main() -> None:
    """Measure adapt-and-predict time and accuracy against a plain loop and Trainer."""
    chosen = arguments(main.__doc__)
    sizes = (3, 1, 2) if chosen.quick else (Recipe().max_steps, ROUNDS, data.TEST_PER_LABEL)
    settings = RunnerSettings.from_environment()
    race(settings, *sizes).publish(choose_precision(settings), chosen.output)


if __name__ == "__main__":
    main()
