"""Measures how much two processes that train on one host slow each other.

Each holds a runner of its own and chooses its threads as a server does: the first has all cores,
the second its share. Each trains alone, and then both at once until each has taken enough steps:
the faster one takes more, and only steps during the other's steps count.
"""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from bench import sets
from bench.report import Columns, Report, Spread, arguments, interleave, ratio, seconds
from cog_adapt import ModelRunner, Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.devices.device import choose_precision
from task import TextClassification

FIRST, SECOND = "the first process", "the second process"
EXAMPLES_PER_LABEL = 8
WARM_UP = 2  # steps of a turn that do not count
_MOST_STEPS = 100_000  # none takes as many
COLUMNS: Columns = {
    "process": str,
    "threads": str,
    "alone, s a step": seconds,
    "beside, s a step": seconds,
    "beside / alone": ratio,
    "steps beside": str,
}


class _EnoughError(Exception):
    """The parent has seen enough steps."""


def serve(pipe: Connection, folder: Path) -> None:
    """Train whenever a number of steps comes, till the next message; 0 ends the process.

    Sends its threads first; for each training an empty message after so many steps, and
    in the end the times of the steps, by a clock that all processes share.
    """
    tempfile.tempdir = str(folder)  # there the processes count each other, and no others
    settings = RunnerSettings(device="cpu", weights_dir=folder)
    with ModelRunner(TextClassification(), settings) as runner, ThreadPoolExecutor(1) as fresh:
        pipe.send(fresh.submit(torch.get_num_threads).result())
        while steps := pipe.recv():
            _train(runner, pipe, steps)


def _train(runner: ModelRunner, pipe: Connection, steps: int) -> None:
    ends: list[float] = []

    def note(_: object) -> None:
        ends.append(time.monotonic())
        if len(ends) == steps:
            pipe.send(None)
        if pipe.poll():
            raise _EnoughError

    with suppress(_EnoughError):
        runner.adapt(_examples(), Recipe("lora", max_steps=_MOST_STEPS), note)
    pipe.recv()
    pipe.send(ends)


def _examples() -> list[Example]:
    texts = sets.load("tickets").texts
    return [Example(text, label) for label in texts for text in texts[label][:EXAMPLES_PER_LABEL]]


@dataclass(frozen=True)
class Process:
    """One process that trains.

    Attributes:
        threads: the number that it computes with.
    """

    pipe: Connection
    threads: int

    @classmethod
    @contextmanager
    def started(cls, folder: Path) -> Iterator["Process"]:
        """Start one, and wait until its model is loaded."""
        context = multiprocessing.get_context("spawn")
        pipe, other = context.Pipe()
        process = context.Process(target=serve, args=(other, folder))
        process.start()
        other.close()  # so that the end of the process ends a wait for it
        try:
            yield cls(pipe, pipe.recv())
            pipe.send(0)
        finally:
            pipe.close()
            process.join()


def measure(rounds: int, steps: int) -> list[dict[str, Any]]:
    """Let two processes train alone in turns, and at once."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with Process.started(folder) as first, Process.started(folder) as second:
            pair = {FIRST: first, SECOND: second}
            turns = {name: _turn({name: each}, steps) for name, each in pair.items()}
            turns["both"] = _turn(pair, steps)
            return rows(pair, interleave(turns, rounds))


def _turn(processes: Mapping[str, Process], steps: int) -> Callable[[int], dict[str, list[float]]]:
    return lambda _: together(processes, steps)


def together(processes: Mapping[str, Process], steps: int) -> dict[str, list[float]]:
    """Let processes train at once till each has taken so many steps; return the steps' seconds."""
    for process in processes.values():
        process.pipe.send(steps)
    for process in processes.values():
        process.pipe.recv()
    for process in processes.values():
        process.pipe.send(None)
    return common({name: process.pipe.recv() for name, process in processes.items()})


def common(ends: Mapping[str, Sequence[float]]) -> dict[str, list[float]]:
    """Return the seconds of each process's steps during which all took counted steps."""
    began = max(each[WARM_UP - 1] for each in ends.values())
    ended = min(each[-1] for each in ends.values())
    return {
        name: [end - begin for begin, end in pairwise(each) if began <= begin and end <= ended]
        for name, each in ends.items()
    }


def rows(
    processes: Mapping[str, Process], found: Mapping[str, Sequence[Mapping[str, list[float]]]]
) -> list[dict[str, Any]]:
    """Make a row for each process; a ratio is of the medians of one round."""
    made = []
    for name, process in processes.items():
        alone = [Spread.of(turn[name]).median for turn in found[name]]
        beside = [Spread.of(turn[name]).median for turn in found["both"]]
        shares = [both / one for both, one in zip(beside, alone, strict=True)]
        made.append(
            {
                "process": name,
                "threads": process.threads,
                "alone, s a step": Spread.of(alone),
                "beside, s a step": Spread.of(beside),
                "beside / alone": Spread.of(shares),
                "steps beside": sum(len(turn[name]) for turn in found["both"]),
            }
        )
    return made


def main() -> None:
    """Measure how much two training processes slow each other."""
    chosen = arguments(main.__doc__)
    rounds, steps = (1, 5) if chosen.quick else (5, 12)
    facts: dict[str, Any] = {
        "rounds": rounds,
        "steps a turn at least": steps,
        "left out of a turn": WARM_UP,
    }
    facts |= {"cores": len(os.sched_getaffinity(0)), "OMP_NUM_THREADS": _omp()}
    report = Report("Two processes that train", COLUMNS, measure(rounds, steps), facts)
    report.publish(choose_precision(RunnerSettings(device="cpu")), chosen.output)


def _omp() -> str:
    return os.environ.get("OMP_NUM_THREADS", "not set")


if __name__ == "__main__":
    main()
