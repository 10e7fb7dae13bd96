"""Measures running servers in turns: each server in each case, once a round.

A round goes from case to case in random order. Within a case the servers follow one another, so
the difference between two of them is taken within seconds. "Pinned" gives core 0 to a server with
all its processes and core 1 to the client; "free" leaves the cores to the kernel.
"""

import contextlib
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.serving_client import Tally, ask_for_a_while, read_stream, to_request
from bench.serving_servers import SLOTS, Served

MEGABYTE = 2**20
SERVER_CORE, CLIENT_CORE = {0}, {1}
PINNED, FREE = "pinned", "free"
PACKAGES = ("cog", "coglet", "fastapi", "uvicorn", "uvloop", "httptools")

Start = Callable[[Path], AbstractContextManager[Served]]
Key = tuple[str, str, str]
"""Server, case, placement."""
Measured = Mapping[str, float]
"""The numbers of one turn, by the columns' titles."""
Results = Mapping[Key, Sequence[Measured]]
"""One value a round."""


@dataclass(frozen=True)
class Sizes:
    """The number and the length of the measurements."""

    rounds: int = 6
    seconds: float = 0.4
    items: int = 10_000
    placements: tuple[str, ...] = (PINNED, FREE)
    rivals: bool = True

    def facts(self) -> dict[str, Any]:
        """Return the facts needed to repeat the measurements."""
        return {
            "rounds": self.rounds,
            "seconds a turn": self.seconds,
            "items of a stream": self.items,
            "slots of an async predictor": SLOTS,
            "versions": {name: version(name) for name in PACKAGES},
        }


QUICK = Sizes(rounds=2, seconds=0.1, items=1000, placements=(PINNED,), rivals=False)


@dataclass(frozen=True)
class Load:
    """Requests in a closed loop.

    Attributes:
        connections: number of connections, each with one request in flight.
        letters: length of the text that is sent and returned.
    """

    connections: int
    letters: int


LOADS = {
    "1 at a time": Load(1, 5),
    "16 at a time": Load(16, 5),
    "1 MB at a time": Load(1, MEGABYTE),
}
STREAM = "stream"
CASES = (*LOADS, STREAM)


@dataclass(frozen=True)
class Turn:
    """One server measured once in one case."""

    server: Served
    case: str
    placement: str
    work: Callable[[], Measured]

    @property
    def key(self) -> Key:
        """The key of its results."""
        return self.server.name, self.case, self.placement

    def take(self, cores: set[int]) -> Measured:
        """Pin server and client to their cores, or to all `cores`, and measure."""
        is_pinned = self.placement == PINNED
        self.server.pin(SERVER_CORE if is_pinned else cores)
        os.sched_setaffinity(0, CLIENT_CORE if is_pinned else cores)
        return self.work()


def measure(starts: Sequence[Start], sizes: Sizes) -> Results:
    """Let the servers take turns, in every case and placement.

    Raises:
        SystemExit: the machine has only one core.
    """
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        raise SystemExit("this needs two cores: one for the server, one for the client.")
    with _all_started(starts) as running:
        turns = [turn for server in running for turn in _turns_of(server, sizes)]
        schedule = schedule_of(turns, sizes.rounds)
        taken = [(number, turn.key, turn.take(cores)) for number, turn in schedule]
    os.sched_setaffinity(0, cores)
    results: dict[Key, list[Measured]] = {turn.key: [] for turn in turns}
    for number, key, measured in taken:
        if number:  # the first round warms up
            results[key].append(measured)
    return results


def schedule_of(turns: Sequence[Turn], rounds: int) -> Iterator[tuple[int, Turn]]:
    """Yield each round's number and turns, cases and trees shuffled (seed 0); round 0 warms up."""
    order = random.Random(0)
    by_case = sorted(turns, key=_case_of)
    cases = [list(group) for _, group in groupby(by_case, _case_of)]
    for number in range(rounds + 1):
        order.shuffle(cases)
        for case in cases:
            order.shuffle(case)
            yield from ((number, turn) for turn in case)


def _case_of(turn: Turn) -> tuple[str, str]:
    return turn.case, turn.placement


@contextlib.contextmanager
def _all_started(starts: Sequence[Start]) -> Iterator[list[Served]]:
    """Start all servers concurrently, each in its own folder."""
    with contextlib.ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-serving-")))
        with ThreadPoolExecutor() as pool:
            waiting = [
                pool.submit(_enter, stack, start, base / str(number))
                for number, start in enumerate(starts)
            ]
        yield [each.result() for each in waiting]


def _enter(stack: contextlib.ExitStack, start: Start, folder: Path) -> Served:
    folder.mkdir()
    return stack.enter_context(start(folder))


def _turns_of(server: Served, sizes: Sizes) -> list[Turn]:
    works: dict[str, Callable[[], Measured]] = {}
    if server.predict is not None:
        for case, load in LOADS.items():
            works[case] = partial(_measure_load, server, load, sizes.seconds)
    if server.stream is not None:
        works[STREAM] = partial(_measure_stream, server, sizes.items)
    return [
        Turn(server, case, placement, work)
        for case, work in works.items()
        for placement in sizes.placements
    ]


def _measure_load(server: Served, load: Load, seconds: float) -> Measured:
    body = json.dumps({"input": {"text": "x" * load.letters}}).encode()
    request = to_request(str(server.predict), body, {})
    ask = partial(ask_for_a_while, server.port, request, connections=load.connections)
    ask(seconds=seconds / 5)  # warms up
    before = server.cpu_seconds()
    tally = ask(seconds=seconds)
    if not tally.milliseconds:
        raise RuntimeError(f"{server.name} gave no answer with a 2xx status, of {tally.refused}.")
    return _numbers(tally, server.cpu_seconds() - before)


def _numbers(tally: Tally, cpu_seconds: float) -> Measured:
    shares = {"p50 ms": 0.5, "p90 ms": 0.9, "p99 ms": 0.99}
    return {
        "per second": tally.rate,
        **{name: tally.percentile(share) for name, share in shares.items()},
        "CPU ms": cpu_seconds * 1000 / max(1, len(tally.milliseconds)),
        "non-2xx": tally.refused_share,
    }


def _measure_stream(server: Served, items: int) -> Measured:
    body = json.dumps({"input": {"count": items}}).encode()
    request = to_request(str(server.stream), body, {"accept": "text/event-stream"})
    answer, seconds = read_stream(server.port, request)
    found = answer.count(server.mark)
    return {"per second": found / seconds, "non-2xx": float(found != items)}
