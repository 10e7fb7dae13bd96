"""Measures adaptations and predictions a second of one and of two workers, with a thread each.

Both servers run throughout and take turns in one run; the idle one costs nothing. Where workers,
front process and client need more cores than there are, the client and the front process take time
from the workers: the rate without them is what the workers would do on cores of their own. It is
the rate, times the workers, over the cores that client and front process left to them.
"""

import argparse
import contextlib
import http.client
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.report import Columns, Report, Spread, arguments, interleave, ratio, seconds
from bench.scale_client import ADAPTATIONS, BESIDE, PREDICTIONS, QUICK, Client, Sizes, Turn
from bench.scale_kills import KILL_SECONDS, KilledServer, KilledTurn
from bench.serving_servers import Served, shipped
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

WORKERS = (1, 2)
_READY_SECONDS = 120.0


def _rate(spread: Spread) -> str:
    return f"{spread.median:.2f} ({spread.low:.2f}–{spread.high:.2f})"


COLUMNS: Columns = {
    "what": str,
    "workers": str,
    "a second": _rate,
    "ratio": ratio,
    "without client and front": _rate,
    "ratio without": ratio,
    "p99 ms": _rate,
    "client, CPU ms each": _rate,
    "front, CPU ms each": _rate,
    "failed": str,
    "wrong": str,
}
_EMPTY = "–"


@contextlib.contextmanager
def started(workers: int) -> Iterator[Served]:
    """Start a server of so many workers with a thread each, and wait until all are ready."""
    variables = {"MODEL_PROCESSES": str(workers), "OMP_NUM_THREADS": "1", "DEVICE": "cpu"}
    with (
        tempfile.TemporaryDirectory() as name,
        shipped(Path(name), f"{workers} workers", variables) as server,
    ):
        _wait_for_all(server)
        yield server


def _wait_for_all(server: Served) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while not _is_whole(server):
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all workers got ready: {_readiness(server)}")
        time.sleep(0.1)


def _is_whole(server: Served) -> bool:
    return "degraded" not in _readiness(server)


def _readiness(server: Served) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/readyz")
        return connection.getresponse().read().decode()


def measure(sizes: Sizes) -> dict[tuple[str, int], list[Turn]]:
    """Let servers of one and of two workers take turns at each kind of work."""
    with contextlib.ExitStack() as stack:
        clients = {
            workers: Client(stack.enter_context(started(workers)), sizes, workers)
            for workers in WORKERS
        }
        found: dict[tuple[str, int], list[Turn]] = {}
        for kind in (ADAPTATIONS, PREDICTIONS, BESIDE):
            turns = {
                str(workers): partial(_turn, client, kind) for workers, client in clients.items()
            }
            interleave(turns, 1)  # the first adaptation compiles and fills caches
            results = interleave(turns, sizes.rounds)
            found |= {(kind, int(workers)): each for workers, each in results.items()}
        return found


def measure_killed(sizes: Sizes) -> KilledTurn:
    """Kill a worker of a server of two each few seconds, under a mixed load."""
    with started(WORKERS[-1]) as server:
        return KilledServer(server, sizes, partial(_is_whole, server)).turn()


def killed_rows(turn: KilledTurn) -> list[dict[str, Any]]:
    """Make the rows of the turn with kills: the predictions, and the adaptations beside them."""
    made = []
    for kind, answers in (("predictions", turn.predictions), ("adaptations", turn.adaptations)):
        tally = answers.tally
        made.append(
            {
                "what": f"{kind} of a mixed load, a worker killed each {KILL_SECONDS:g} s",
                "workers": WORKERS[-1],
                "a second": Spread.of([tally.rate]),
                "p99 ms": Spread.of([tally.percentile(0.99)]),
                "failed": tally.refused,
                "wrong": answers.wrong,
            }
        )
    made[0]["client, CPU ms each"] = Spread.of([1e3 * turn.turn.client / turn.turn.done])
    made[0]["front, CPU ms each"] = Spread.of([1e3 * turn.turn.front / turn.turn.done])
    return made


def _turn(client: Client, kind: str, _round: int) -> Turn:
    return client.turn(kind)


def rows(found: Mapping[tuple[str, int], Sequence[Turn]], cores: int) -> list[dict[str, Any]]:
    """Make a row of each kind and number of workers; ratios are to one worker, within a round."""
    made = []
    for (kind, workers), turns in found.items():
        base = found[kind, WORKERS[0]]
        rates = [each.tally.rate for each in turns]
        alone = [each.without_others(workers, cores) for each in turns]
        pairs = [*zip(turns, base, strict=True)]
        made.append(
            {
                "what": kind,
                "workers": workers,
                "a second": Spread.of(rates),
                "ratio": Spread.of([a.tally.rate / max(b.tally.rate, 1e-9) for a, b in pairs]),
                "without client and front": Spread.of(alone),
                "ratio without": Spread.of(
                    [
                        a.without_others(workers, cores)
                        / max(b.without_others(WORKERS[0], cores), 1e-9)
                        for a, b in pairs
                    ]
                ),
                "p99 ms": Spread.of([each.tally.percentile(0.99) for each in turns]),
                "client, CPU ms each": Spread.of([1e3 * t.client / t.done for t in turns]),
                "front, CPU ms each": Spread.of([1e3 * t.front / t.done for t in turns]),
                "failed": sum(each.tally.refused for each in turns),
            }
        )
    return made


def as_markdown(report: Report) -> str:
    """Return the page of the results."""
    titles = list(report.columns)
    lines = [f"# {report.title}", "", "Made by `python -m bench.scale`. " + _READING, ""]
    lines += [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for row in report.rows:
        cells = ((row.get(title), show) for title, show in report.columns.items())
        shown = (_EMPTY if value is None else show(value) for value, show in cells)
        lines.append(f"| {' | '.join(shown)} |")
    lines += ["", *(f"- {name}: {value}" for name, value in report.settings.items())]
    return "\n".join(lines) + "\n"


_READING = (
    "Both servers take turns in one run; a rate has its median and range over the rounds. Under "
    "the kills all requests have `retries`: `failed` are those without an answer, `wrong` those "
    "with another answer than without kills, or from an adapter that afterwards answers otherwise."
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=Sizes.rounds, help="0: only kills")
    parser.add_argument("--kills", type=int, default=Sizes.kills, help="0: without that turn")


def main() -> None:
    """Measure one and two workers; write the page beside the numbers."""
    chosen = arguments(main.__doc__, _add_arguments)
    sizes = QUICK if chosen.quick else Sizes(rounds=chosen.rounds, kills=chosen.kills)
    cores = len(os.sched_getaffinity(0))
    facts: dict[str, float | str] = {
        "rounds": sizes.rounds,
        "seconds a turn": sizes.seconds,
        "requests in flight for each worker": sizes.connections,
        "cores": cores,
        "threads of a worker": 1,
        "steps of an adaptation": sizes.steps,
        "examples of a label": sizes.examples,
    }
    found = rows(measure(sizes), cores) if sizes.rounds else []
    if sizes.kills:
        killed = measure_killed(sizes)
        found += killed_rows(killed)
        facts |= {
            "kills of a worker": len(killed.recoveries),
            "seconds until both were ready again": seconds(Spread.of(killed.recoveries)),
        }
        lost = killed.predictions.lost + killed.adaptations.lost
        facts |= {f"lost: {why}": count for why, count in lost.items()}
    report = Report("One worker and two", COLUMNS, found, facts)
    report.publish(choose_precision(RunnerSettings(device="cpu")), chosen.output)
    if chosen.output is not None:
        chosen.output.with_suffix(".md").write_text(as_markdown(report), "utf-8")


if __name__ == "__main__":
    main()
