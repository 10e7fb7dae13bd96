"""Adapt and predict, compared with the two usual implementations (bench/rivals.py).

"LoRA", the plain loop and Trainer take the same steps: the same batches, LoRA of the same layers,
rank and scale, the head from the labels' names, the same optimizer, rate and clipping. Each keeps
its own dropout: everywhere in the rivals (`model.train()`), around the trained tensors in the
runner. "LoRA from the closed form" is what `auto` runs on all examples, without its estimate, with
a given number of steps. A round uses one seed for the data and all draws; the contestants take
turns in beginning a round.
"""

import argparse
import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from typing import Any, TypeVar, cast

import torch

from bench import data
from bench.adaptation_plot import PLAIN, plot
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
from cog_adapt.runner.adaptation.run import adapt
from cog_adapt.runner.auto.head import features_of
from cog_adapt.runner.auto.start import given_of
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.inference.label_tensors import finished
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from gradient_check.phases.precision import Precision
from task import TextClassification

ROUNDS = 10
TRAINER = "Trainer + peft"
COLUMNS: Columns = {
    "contestant": str,
    "adapt, s": seconds,
    "adapt / plain": ratio,
    "adapt / Trainer": ratio,
    "predict, s": seconds,
    "accuracy": share,
    "accuracy - plain": share,
}

T = TypeVar("T")
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
    examples_per_label: int = 8
    warm_steps: Sequence[int] = (10, 12, 15, 20)
    test_per_label: int = data.TEST_PER_LABEL

    def run(self, adapt: Adapt, seed: int) -> Outcome:
        """Time both halves."""
        split = data.split(self.examples_per_label, seed, self.test_per_label)
        device = self.precision.device
        began = clock(device)
        answer = adapt(split.train, Recipe(max_steps=self.steps, seed=seed))
        adapted = clock(device)
        answers = answer(split.texts)
        ended = clock(device)
        return Outcome(adapted - began, ended - adapted, split.accuracy(answers))


def runner_way(runner: ModelRunner, **changes: Any) -> Adapt:  # noqa: ANN401 - of a recipe
    """Make a contestant of the runner, used as a request uses it."""

    def way(examples: Sequence[Example], recipe: Recipe) -> Answer:
        adapter = runner.adapt(examples, replace(recipe, **changes)).adapter
        labels = () if adapter else tuple(dict.fromkeys(e.target for e in examples))
        return lambda texts: [each["label"] for each in runner.predict(texts, adapter, labels)]

    return way


def warm_way(runner: ModelRunner, steps: int) -> Adapt:
    """Make a contestant of LoRA that begins with the closed form, as in `auto`."""

    def way(examples: Sequence[Example], recipe: Recipe) -> Answer:
        adapter = _from_closed_form(runner, examples, replace(recipe, method="lora"), steps)
        return lambda texts: [each["label"] for each in runner.predict(texts, adapter)]

    return way


def _from_closed_form(
    runner: ModelRunner, examples: Sequence[Example], recipe: Recipe, steps: int
) -> Adapter:
    model, began = runner.model, time.monotonic()
    start, phase = model.start(examples, recipe), model.predictions.phase
    inputs = [example.input for example in examples]
    features = finished(features_of(phase, model.base.module, inputs, model.batch_size))
    given = given_of(start, phase, features, began)
    assert given is not None
    everything = torch.arange(len(examples))
    form = given.objective.fit(given.features, everything)
    tensors, report = _result_of(adapt(given.beginning(everything, form, steps)))
    return Adapter(tensors, tuple(start.data.labels), report.method, runner.base)


def _result_of(work: Generator[object, None, T]) -> T:
    while True:
        try:
            next(work)
        except StopIteration as stop:
            return cast(T, stop.value)


def contestants(runner: ModelRunner, race: Race) -> dict[str, Adapt]:
    """Make all contestants, with the learning rate that the runner chooses for this model."""
    task = TextClassification()
    base = Base.load(task, race.precision)
    one_step = Recipe(method="lora", max_steps=1)
    rate = runner.adapt(task.probe(), one_step).report.learning_rate
    return {
        "closed form": runner_way(runner, method="head"),
        **{f"LoRA from the closed form, {n} steps": warm_way(runner, n) for n in race.warm_steps},
        "auto": runner_way(runner, method="auto"),
        "LoRA": runner_way(runner, method="lora"),
        "LoRA, last block": runner_way(runner, method="lora", blocks=1),
        PLAIN: partial(_rival, plain_loop, base, rate),
        TRAINER: partial(_rival, trainer, base, rate),
        **_setfit(base),
    }


def _setfit(base: Base) -> dict[str, Adapt]:
    """Make a contestant of SetFit if it is installed (`bench/requirements-peers.txt`)."""
    if not importlib.util.find_spec("setfit"):
        return {}
    return {"SetFit": importlib.import_module("bench.quality.setfit_peer").setfit_way(base)}


def _rival(
    run: Callable[..., Answer],
    base: Base,
    rate: float,
    examples: Sequence[Example],
    recipe: Recipe,
) -> Answer:
    return run(base, examples, recipe, rate)


def run_rounds(race: Race, settings: RunnerSettings, *, rounds: int, only: str = "*") -> Report:
    """Warm up every contestant that `only` or a comparison asks for, then run the rounds."""
    warm_up = replace(race, steps=2, test_per_label=1)
    with ModelRunner(TextClassification(), settings) as runner:
        asked = (only, PLAIN, TRAINER)
        ways = {
            name: way
            for name, way in contestants(runner, race).items()
            if any(fnmatch(name, pattern) for pattern in asked)
        }
        for adapt in ways.values():
            warm_up.run(adapt, seed=rounds)
        outcomes = interleave({name: _turn(race, way) for name, way in ways.items()}, rounds)
    facts = {
        "rounds": rounds,
        "examples": race.examples_per_label * len(data.LABELS),
        "test glosses": race.test_per_label * len(data.LABELS),
        "recipe": str(Recipe(max_steps=race.steps)),
        **data.facts(),
    }
    return Report("Adapt and predict, WordNet noun glosses", COLUMNS, rows(outcomes), facts)


def rows(outcomes: Mapping[str, list[Outcome]]) -> list[dict[str, Any]]:
    """Make a row for each contestant; comparisons are made within each round."""
    table = []
    for name, results in outcomes.items():
        pairs = list(zip(results, outcomes[PLAIN], strict=True))
        others = list(zip(results, outcomes[TRAINER], strict=True))
        columns = {
            "adapt, s": [o.adapt for o in results],
            "adapt / plain": [o.adapt / p.adapt for o, p in pairs],
            "adapt / Trainer": [o.adapt / p.adapt for o, p in others],
            "predict, s": [o.predict for o in results],
            "accuracy": [o.accuracy for o in results],
            "accuracy - plain": [o.accuracy - p.accuracy for o, p in pairs],
        }
        spreads = {column: Spread.of(values) for column, values in columns.items()}
        table.append({"contestant": name, **spreads})
    return table


def _turn(race: Race, adapt: Adapt) -> Callable[[int], Outcome]:
    return lambda seed: race.run(adapt, seed)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", default="*", help="glob of contestants beside the two peers")


def main() -> None:
    """Measure adapt-and-predict time and accuracy against a plain loop and Trainer."""
    chosen = arguments(main.__doc__, _add_options)
    settings = RunnerSettings.from_environment()
    race = Race(choose_precision(settings), Recipe().max_steps)
    if chosen.quick:
        race = replace(race, steps=3, examples_per_label=2, warm_steps=(3,), test_per_label=2)
    rounds = 1 if chosen.quick else ROUNDS
    found = run_rounds(race, settings, rounds=rounds, only=chosen.only)
    found.publish(race.precision, chosen.output)
    if chosen.output is not None:
        plot(
            json.loads(chosen.output.read_text("utf-8"))["rows"], chosen.output.with_suffix(".png")
        )


if __name__ == "__main__":
    main()
