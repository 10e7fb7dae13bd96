"""Measures the overhead of the runner: plain prediction, mode switches, replicas, the tripwire.

Contestants take turns of several calls. The first call of a turn is not counted, because it pays
for the change of threads and caches. The bare prediction is the same encoding, forward and softmax
in inference mode, called directly on a separate module.
"""

import itertools
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bench import data
from bench.report import (
    Columns,
    Report,
    Spread,
    arguments,
    clock,
    interleave,
    milliseconds,
    percent,
)
from cog_adapt.runner.config import Recipe, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.selftest.run import run_self_test
from cog_adapt.runner.task.task import on_device
from gradient_check.phases.modes import run_adaptation, run_inference
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import modules_in_training, serving_replica, training_replica
from task import TextClassification

SENTENCE = "I was charged twice for one order."
EXAMPLES_PER_LABEL = 8
SELF_TESTS = 5
BARE = "bare prediction"
RUNNER = "runner's prediction"
COLUMNS: Columns = {"what": str, "ms": milliseconds, "share": percent, "of": str}

Call = Callable[[], Any]


@dataclass(frozen=True)
class Sizes:
    """The number of rounds, calls and steps."""

    rounds: int = 40
    calls: int = 10
    steps: int = 20


QUICK = Sizes(rounds=3, calls=3, steps=2)


def bare_prediction(task: TextClassification, precision: Precision) -> Call:
    """Make the call that a plain server would run for one text."""
    module: Any = task.load().to(precision.device).eval()
    with torch.no_grad():
        start = task.start(module, data.LABELS, ())
    module.head = nn.Linear(module.head.in_features, len(data.LABELS), device=precision.device)
    module.load_state_dict(start, strict=False)
    device = precision.device

    def predict() -> list[Any]:
        batch = on_device(task.encode([SENTENCE]), device)
        with (
            torch.inference_mode(),
            torch.autocast(device.type, dtype=precision.compute, enabled=precision.autocasts),
        ):
            return task.predict(module, batch, data.LABELS, None)

    return predict


def parts(loaded: LoadedModel, settings: RunnerSettings) -> dict[str, Call]:
    """Return calls of the runner's own work, each without a model's work inside."""
    examples = data.split(EXAMPLES_PER_LABEL, 0).train
    base, template = loaded.base.module, loaded.base.template
    tensors = loaded.start(examples, Recipe()).trained.tensors
    replica = training_replica(template, tensors)
    training = modules_in_training(replica)
    precision, serve_mode = loaded.base.precision, settings.serve_mode
    return {
        "switch to inference": lambda: run_inference(_nothing, base, precision, serve_mode),
        "switch to adaptation": lambda: run_adaptation(_nothing, replica, training),
        "training replica": lambda: training_replica(template, tensors),
        "serving replica": lambda: serving_replica(template, tensors),
        "tripwire, every bit": lambda: loaded.base.census.changes(base),
    }


def _nothing(module: nn.Module) -> None:
    """Do nothing, inside a switched mode."""


def timed(call: Call, device: torch.device, calls: int) -> Callable[[int], list[float]]:
    """Make a contestant for `interleave`: the milliseconds of a turn's calls after the first."""

    def turn(_: int) -> list[float]:
        times = []
        for _ in range(calls + 1):
            began = clock(device)
            call()
            times.append((clock(device) - began) * 1000)
        return times[1:]

    return turn


def step_times(runner: ModelRunner, steps: int) -> Spread:
    """Measure the milliseconds of each step of an adaptation with the default recipe."""
    examples = data.split(EXAMPLES_PER_LABEL, 0).train
    taken = runner.adapt(examples, Recipe(max_steps=steps)).report.steps
    ends = [step.seconds * 1000 for step in taken]
    return Spread.of([end - begin for begin, end in itertools.pairwise(ends)])


def self_test_times(loaded: LoadedModel) -> Spread:
    """Measure the milliseconds of warm self-tests."""
    run_self_test(loaded)
    return Spread.of([run_timed(loaded) for _ in range(SELF_TESTS)])


def run_timed(loaded: LoadedModel) -> float:
    """Measure the milliseconds of one self-test."""
    began = clock(loaded.base.precision.device)
    run_self_test(loaded).raise_if_failed()
    return (clock(loaded.base.precision.device) - began) * 1000


def measure(settings: RunnerSettings, sizes: Sizes) -> Report:
    """Let the calls take turns, then compare each with the work that contains it."""
    task, precision = TextClassification(), choose_precision(settings)
    loaded = LoadedModel(task, settings)
    with ModelRunner(task, settings) as runner:
        calls: dict[str, Call] = {
            BARE: bare_prediction(task, precision),
            RUNNER: lambda: runner.predict([SENTENCE], labels=data.LABELS),
            **parts(loaded, settings),
        }
        turns = {name: timed(call, precision.device, sizes.calls) for name, call in calls.items()}
        interleave(turns, 1)
        times = interleave(turns, sizes.rounds)
        step = step_times(runner, sizes.steps)
    self_test = {"what": "self-test, warm", "ms": self_test_times(loaded)}
    facts = {"rounds": sizes.rounds, "calls a round": sizes.calls, "sentence": SENTENCE}
    return Report(
        "Overhead of the runner at batch 1", COLUMNS, [*rows(times, step), self_test], facts
    )


def rows(times: Mapping[str, list[list[float]]], step: Spread) -> list[dict[str, Any]]:
    """Make a row for each call, with its share of the work that contains it."""
    spreads = {name: Spread.of([*itertools.chain(*turns)]) for name, turns in times.items()}
    bare, adaptation = spreads[BARE].median, step.median * Recipe().max_steps
    whole = {
        "switch to inference": (bare, "a bare prediction"),
        "switch to adaptation": (step.median, "a step"),
    }
    table: list[dict[str, Any]] = []
    for name, spread in spreads.items():
        total, of = whole.get(name, (adaptation, f"{Recipe().max_steps} steps"))
        part = Spread.of([spread.median / total])
        table.append({"what": name, "ms": spread, "share": part, "of": of})
    table[0] |= {"share": None, "of": None}
    table[1] |= {"share": added(times), "of": "more than the bare one"}
    return [*table, {"what": "adaptation step", "ms": step}]


def added(times: Mapping[str, list[list[float]]]) -> Spread:
    """Return the time that the runner adds to a bare prediction, compared within each round."""
    medians = {name: [statistics.median(turn) for turn in times[name]] for name in (BARE, RUNNER)}
    pairs = zip(medians[RUNNER], medians[BARE], strict=True)
    return Spread.of([ours / bare - 1 for ours, bare in pairs])


def main() -> None:
    """Measure what plain prediction, mode switches, replicas and the tripwire cost."""
    chosen = arguments(main.__doc__)
    settings = RunnerSettings.from_environment()
    report = measure(settings, QUICK if chosen.quick else Sizes())
    report.publish(choose_precision(settings), chosen.output)


if __name__ == "__main__":
    main()
