"""A kind of model in `bench.own`: its rows, and two ways to adapt to them.

One way is this project's, a request to the kind's own task; the other is written by hand, with the
usual libraries. Both answer the same held-out inputs.
"""

import asyncio
import contextlib
import importlib.util
import io
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch

from cog_adapt import ModelRunner, Request, RunnerSettings, Task, answer
from cog_adapt.runner.scheduling.scheduler import once

_MOST_SECONDS = 3600.0  # of a twin's adaptation


@dataclass(frozen=True)
class Outcome:
    """The results of an adaptation: held-out scores, higher is better, and its times.

    Attributes:
        before: the score of the base.
        after: the score after learning.
        seconds: of the adaptation, by the clock.
        cpu: seconds of this process; ours are those of a whole request with one input, its rows
            read and its two answers included. None if not measured.
    """

    before: float
    after: float
    seconds: float
    cpu: float | None = None


T = TypeVar("T")
Way = Callable[[int], Outcome]
"""Adapts to the rows that a seed draws."""

Score = Callable[[Sequence[Any]], float]


@dataclass(frozen=True)
class Kind:
    """A row of the table.

    Attributes:
        title: the model, and the data that it adapts to.
        folder: of its task and predictor.
        scale: the name of the score.
        by_hand: what the code by hand does.
        needs: each requirement, with the module or the path by which it is found.
        ways: returns the project's way and the one by hand, given a folder for files.
        most_times: the allowed time: so many times that of the code by hand, plus 0.3.
        first_seed: of the seeds that draw rows; others may have been used before.
    """

    title: str
    folder: str
    scale: str
    by_hand: str
    needs: Mapping[str, str]
    ways: Callable[[Path], AbstractContextManager[tuple[Way, Way]]]
    most_times: float = 1.0
    first_seed: int = 0

    @property
    def missing(self) -> list[str]:
        """Name the requirements that are not installed."""
        return [name for name, place in self.needs.items() if not _is_there(place)]


def _is_there(place: str) -> bool:
    return Path(place).exists() if "/" in place else importlib.util.find_spec(place) is not None


def threads() -> int:
    """Return how many threads both ways compute with."""
    return int(os.environ.get("OMP_NUM_THREADS", torch.get_num_threads()))


def runner_of(task: Task, scratch: Path) -> ModelRunner:
    """Load a task's model on the CPU; cache no features, so that each seed pays for its own."""
    settings = RunnerSettings(device="cpu", weights_dir=scratch, feature_bytes=1)
    torch.set_num_threads(threads())  # the model thread keeps it
    runner = ModelRunner(task, settings)
    runner.self_test().raise_if_failed()
    torch.set_num_threads(1)
    return runner


def on_model_thread(runner: ModelRunner, work: Callable[[int], T]) -> Callable[[int], T]:
    """Return a function that does the work on the runner's model thread.

    If two threads compute in parallel, waiting threads soon sleep, and both are slower
    (`devices/waiting_threads.py`).
    """
    submit = runner.scheduler.submit_long
    return lambda number: submit(once(work, number), _MOST_SECONDS).wait()


def asked(runner: ModelRunner, request: Request, score: Score) -> Outcome:
    """Send a request with examples, as a predictor does; the learned model answers all inputs."""
    first = replace(request, inputs=request.inputs[:1], fresh=True)
    with contextlib.redirect_stdout(io.StringIO()):  # the log of a prediction
        began = time.process_time()
        report = asyncio.run(answer(runner, first)).report or {}
        cpu = time.process_time() - began
        done = asyncio.run(answer(runner, request))  # the same rows: no step is taken
    base = score(_of_base(runner, request))
    return Outcome(base, score(done.predictions), float(report["seconds"]), cpu)


def _of_base(runner: ModelRunner, request: Request) -> Sequence[Any]:
    rows = [runner.task.example(row) for row in request.examples if isinstance(row, Mapping)]
    labels = runner.task.labels(rows)
    return runner.predict(request.inputs, labels=labels, options=request.options)


def by_hand(
    base: Sequence[Any], adapt: Callable[[], Callable[[], Sequence[Any]]], score: Score
) -> Outcome:
    """Time the adaptation by hand; its answers are not timed."""
    began, worked = time.perf_counter(), time.process_time()
    answers = adapt()
    seconds, cpu = time.perf_counter() - began, time.process_time() - worked
    return Outcome(score(base), score(answers()), seconds, cpu)


def accuracy(labels: Sequence[str]) -> Score:
    """Score labels, or answers that contain one."""

    def score(answers: Sequence[Any]) -> float:
        said = [each["label"] if isinstance(each, Mapping) else each for each in answers]
        right: int = sum(one == other for one, other in zip(said, labels, strict=False))
        return right / len(labels)

    return score
