"""What a kind of model brings to `bench.own`: its rows, and two ways to adapt to them.

One way is this project's, a request to the kind's own task; the other is what one would write by
hand, with the usual libraries. Both answer the same held-out inputs.
"""

import asyncio
import contextlib
import importlib.util
import io
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, Task, answer


@dataclass(frozen=True)
class Outcome:
    """What an adaptation brought: held-out scores, higher is better, and its seconds."""

    before: float
    after: float
    seconds: float


Way = Callable[[int], Outcome]
"""Adapts to what a seed draws."""

Score = Callable[[Sequence[Any]], float]


@dataclass(frozen=True)
class Kind:
    """A row of the table.

    Attributes:
        title: the model, and what it is adapted to.
        folder: of its task and door.
        scale: what is scored.
        by_hand: what the twin does.
        needs: each requirement, with the module or the path by which it is found.
        ways: gives the project's way and the one by hand, in a folder for files.
        most_times: how many times the twin's seconds are allowed, beside 0.3 more.
    """

    title: str
    folder: str
    scale: str
    by_hand: str
    needs: Mapping[str, str]
    ways: Callable[[Path], AbstractContextManager[tuple[Way, Way]]]
    most_times: float = 1.0

    @property
    def missing(self) -> list[str]:
        """Name the requirements that are not installed."""
        return [name for name, place in self.needs.items() if not _is_there(place)]


def _is_there(place: str) -> bool:
    return Path(place).exists() if "/" in place else importlib.util.find_spec(place) is not None


def runner_of(task: Task, scratch: Path) -> ModelRunner:
    """Load a task's model on the CPU; keep no features, so that each seed pays for its own."""
    settings = RunnerSettings(device="cpu", weights_dir=scratch, feature_bytes=1)
    runner = ModelRunner(task, settings)
    runner.self_test().raise_if_failed()
    return runner


def asked(
    runner: ModelRunner,
    inputs: Sequence[Any],
    rows: Sequence[Mapping[str, Any]],
    recipe: Recipe,
    score: Score,
) -> Outcome:
    """Send a request with examples, as a door does."""
    request = Request(inputs, examples=[*rows], recipe=recipe, fresh=True)
    with contextlib.redirect_stdout(io.StringIO()):  # the log of a prediction
        done = asyncio.run(answer(runner, request))
    report = done.report or {}
    return Outcome(score(done.before or []), score(done.predictions), float(report["seconds"]))


def by_hand(
    base: Sequence[Any], adapt: Callable[[], Callable[[], Sequence[Any]]], score: Score
) -> Outcome:
    """Time a twin's adaptation; its answers are not timed, nor are those of the project."""
    began = time.perf_counter()
    answers = adapt()
    seconds = time.perf_counter() - began
    return Outcome(score(base), score(answers()), seconds)


def accuracy(labels: Sequence[str]) -> Score:
    """Score labels, or answers that have one."""

    def score(answers: Sequence[Any]) -> float:
        said = [each["label"] if isinstance(each, Mapping) else each for each in answers]
        right: int = sum(one == other for one, other in zip(said, labels, strict=False))
        return right / len(labels)

    return score
