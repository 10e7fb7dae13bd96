"""What serving a no-op costs: this project's server, coglet, plain FastAPI, LitServe, mosec.

All servers are up all the time and take turns: every round measures each in each case, in an order
that is drawn anew. Pinned, a server with all its processes has core 0 and the client core 1; free,
the kernel decides. Latencies of a round become its percentiles, and the table shows the median
and quartiles of these over the rounds. "CPU ms" is the time that the server's threads computed for
each answer with a 2xx status; other work on the machine disturbs it least. A stream that lacks
items counts as an answer without a 2xx status.
"""

import contextlib
import itertools
import json
import os
import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path

from bench import serving_servers as servers
from bench.report import Columns, Report, Row, Spread, arguments, percent
from bench.serving_client import Tally, ask_for_a_while, read_stream, to_request
from bench.serving_servers import RIVALS, SLOTS, Served
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.device import choose_precision

MEGABYTE = 2**20
SERVER_CORE, CLIENT_CORE = {0}, {1}
PREDICTORS = ("Sync", "Async", "Stream")
MIRROR, COGLET, FLOOR = "mirror", "coglet", "FastAPI"
PINNED, FREE = "pinned", "free"

Start = Callable[[Path], AbstractContextManager[Served]]


@dataclass(frozen=True)
class Sizes:
    """How often everything is measured."""

    rounds: int = 6
    seconds: float = 0.4
    items: int = 10_000
    placements: tuple[str, ...] = (PINNED, FREE)
    rivals: bool = True


QUICK = Sizes(rounds=2, seconds=0.1, items=1000, placements=(PINNED,), rivals=False)


@dataclass(frozen=True)
class Load:
    """Requests in a closed loop.

    Attributes:
        connections: that each have one request in flight.
        letters: of the text that is sent, and given back.
    """

    connections: int
    letters: int


LOADS = {
    "1 at a time": Load(1, 5),
    "16 at a time": Load(16, 5),
    "1 MB at a time": Load(1, MEGABYTE),
}
STREAM = "stream"

Key = tuple[str, str, str]
"""Server, case, placement."""
Measured = Mapping[str, float]
"""By the columns' titles; of one turn."""


def short(spread: Spread) -> str:
    """Median and quartiles of something of any size."""
    median, low, high = spread.median, spread.lower_quartile, spread.upper_quartile
    digits = 0 if median >= 100 else 3
    return f"{median:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


COLUMNS: Columns = {
    "server": str,
    "case": str,
    "cores": str,
    "per second": short,
    "p50 ms": short,
    "p99 ms": short,
    "CPU ms": short,
    "non-2xx": percent,
}


def starts(sizes: Sizes) -> list[Start]:
    """Everything that is to be started."""
    cogs = itertools.product((servers.mirror, servers.coglet), PREDICTORS)
    rivals = [servers.litserve, servers.mosec] if sizes.rivals else []
    return [
        *(partial(_with_predictor, start, each) for start, each in cogs),
        servers.floor,
        *rivals,
    ]


def _with_predictor(
    start: Callable[[Path, str], AbstractContextManager[Served]], predictor: str, folder: Path
) -> AbstractContextManager[Served]:
    return start(folder, predictor)


@contextlib.contextmanager
def all_started(sizes: Sizes) -> Iterator[list[Served]]:
    """Every server, started at once, each in a folder of its own."""
    with contextlib.ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-serving-")))
        wanted = [(start, base / str(number)) for number, start in enumerate(starts(sizes))]
        with ThreadPoolExecutor() as pool:
            waiting = [pool.submit(_enter, stack, start, folder) for start, folder in wanted]
        yield [each.result() for each in waiting]


def _enter(stack: contextlib.ExitStack, start: Start, folder: Path) -> Served:
    folder.mkdir()
    return stack.enter_context(start(folder))


def turns_of(server: Served, sizes: Sizes) -> dict[str, Callable[[], Measured]]:
    """What is measured of a server, by case."""
    turns: dict[str, Callable[[], Measured]] = {}
    if server.predict is not None:
        for case, load in LOADS.items():
            turns[case] = partial(_measure_load, server, load, sizes.seconds)
    if server.stream is not None:
        turns[STREAM] = partial(_measure_stream, server, sizes.items)
    return turns


def _measure_load(server: Served, load: Load, seconds: float) -> Measured:
    body = json.dumps({"input": {"text": "x" * load.letters}}).encode()
    request = to_request(str(server.predict), body, {})
    ask = partial(ask_for_a_while, server.port, request, connections=load.connections)
    ask(seconds=seconds / 5)  # warms up
    before = server.cpu_seconds()
    tally = ask(seconds=seconds)
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


def measure(sizes: Sizes) -> dict[Key, list[Measured]]:
    """Let the servers take turns, in every case and placement."""
    everywhere = os.sched_getaffinity(0)
    order = random.Random(0)
    results: dict[Key, list[Measured]] = {}
    with all_started(sizes) as running:
        turns = [
            (server, case, placement, turn)
            for server in running
            for case, turn in turns_of(server, sizes).items()
            for placement in sizes.placements
        ]
        results = {(server.name, case, placement): [] for server, case, placement, _ in turns}
        for number in range(sizes.rounds + 1):
            order.shuffle(turns)
            for server, case, placement, turn in turns:
                is_pinned = placement == PINNED
                server.pin(SERVER_CORE if is_pinned else everywhere)
                os.sched_setaffinity(0, CLIENT_CORE if is_pinned else everywhere)
                measured = turn()
                if number:  # the first round warms up
                    results[server.name, case, placement].append(measured)
    os.sched_setaffinity(0, everywhere)
    return results


def rows(results: Mapping[Key, Sequence[Measured]]) -> list[Row]:
    """A row for each server, case and placement."""
    cases = [*LOADS, STREAM]
    ordered = sorted(results, key=lambda key: (key[2] != PINNED, cases.index(key[1])))
    table: list[Row] = []
    for key in ordered:
        turns = results[key]
        spreads = {name: Spread.of([turn[name] for turn in turns]) for name in turns[0]}
        table.append({"server": key[0], "case": key[1], "cores": key[2], **spreads})
    return table


def goals(results: Mapping[Key, Sequence[Measured]]) -> dict[str, str]:
    """The goals and what came out; differences are taken within each round."""

    def numbers(server: str, case: str, what: str) -> list[float]:
        return [turn[what] for turn in results[server, case, PINNED]]

    def added(ours: str, theirs: str) -> float:
        pairs = zip(
            numbers(ours, "1 at a time", "p50 ms"),
            numbers(theirs, "1 at a time", "p50 ms"),
            strict=True,
        )
        return statistics.median(our - their for our, their in pairs)

    def rates(case: str, kind: str) -> str:
        ours, theirs = (
            statistics.median(numbers(f"{name}{kind}", case, "per second"))
            for name in (MIRROR, COGLET)
        )
        return f"{ours:.0f} and {theirs:.0f}"

    refused = max(
        turn.get("non-2xx", 0.0)
        for (server, _, _), turns in results.items()
        if server.startswith(MIRROR)
        for turn in turns
    )
    return {
        "p50 over FastAPI's, ms (at most 0.5)": f"{added(f'{MIRROR}, sync', FLOOR):.3f}",
        "p50 over coglet's, ms (below 0)": f"{added(f'{MIRROR}, sync', f'{COGLET}, sync'):.3f}",
        "requests/s of 16, async, mirror and coglet": rates("16 at a time", ", async"),
        "requests/s of 16, sync, mirror and coglet": rates("16 at a time", ", sync"),
        "items/s, mirror (3500 at least) and coglet": rates(STREAM, ""),
        "mirror's largest share of non-2xx": f"{refused:.2%}",
    }


def main() -> None:
    """Measure what serving a no-op costs, beside other servers."""
    chosen = arguments(main.__doc__)
    if len(os.sched_getaffinity(0)) < 2:
        raise SystemExit("this needs two cores: one for the server, one for the client.")
    sizes = QUICK if chosen.quick else Sizes()
    results = measure(sizes)
    packages = ("cog", "coglet", "fastapi", "uvicorn", "uvloop", "httptools")
    facts = {
        **goals(results),
        "rounds": sizes.rounds,
        "seconds a turn": sizes.seconds,
        "items of a stream": sizes.items,
        "slots of an async predictor": SLOTS,
        "versions": {name: version(name) for name in packages},
        "rivals": list(RIVALS.values()) if sizes.rivals else [],
    }
    report = Report("Serving a no-op", COLUMNS, rows(results), facts)
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)


if __name__ == "__main__":
    main()
