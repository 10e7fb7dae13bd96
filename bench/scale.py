"""Measures adaptations and predictions a second of one and of two workers, with a thread each.

Both servers run throughout and take turns in one run; the idle one costs nothing. Where workers,
front process and client need more cores than there are, the client and the front process take time
from the workers: the rate without them is what the workers would do on cores of their own. It is
the rate, times the workers, over the cores that client and front process left to them.
"""

import contextlib
import http.client
import itertools
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bench import sets
from bench.report import Columns, Report, Spread, arguments, interleave, ratio
from bench.serving_client import Tally
from bench.serving_servers import Served, shipped
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

WORKERS = (1, 2)
_READY_SECONDS = 120.0
_ANSWER_SECONDS = 300.0
ADAPTATIONS, PREDICTIONS, BESIDE = "adaptations", "predictions", "predictions beside adaptations"


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
}


@dataclass(frozen=True)
class Sizes:
    """The extent of a run.

    Attributes:
        rounds: turns of each server at each kind of work.
        seconds: of a turn; the requests under way then end.
        connections: requests in flight.
        steps: of an adaptation.
        examples: of each label of an adaptation.
    """

    rounds: int = 6
    seconds: float = 20.0
    connections: int = 8
    steps: int = 10
    examples: int = 4


QUICK = Sizes(rounds=1, seconds=1.0, connections=2, steps=1, examples=1)


@dataclass(frozen=True)
class Turn:
    """What one server did in one turn.

    Attributes:
        tally: of the answers.
        client: CPU seconds of this process.
        front: CPU seconds of the server's front process.
    """

    tally: Tally
    client: float
    front: float

    @property
    def done(self) -> int:
        """The number of answers that succeeded, at least 1 so that a failed turn has a cost."""
        return max(1, len(self.tally.milliseconds))

    def without_others(self, workers: int, cores: int) -> float:
        """Return the rate of workers that need not share their cores with client and front."""
        left = cores - (self.client + self.front) / self.tally.seconds
        return self.tally.rate * max(1.0, workers / max(left, 1e-9))


@dataclass
class Client:
    """Sends requests to one server from several threads.

    Attributes:
        numbers: a new one for each adaptation, so that none is known.
    """

    server: Served
    sizes: Sizes
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def turn(self, kind: str) -> Turn:
        """Let each thread ask one request after the other for so many seconds."""
        client, front = time.process_time(), self.server.front_cpu_seconds()
        began = time.perf_counter()
        tally = Tally()
        connections = self.sizes.connections
        with ThreadPoolExecutor(2 * connections) as pool:
            asking = [pool.submit(self._ask, self._maker(kind), tally) for _ in range(connections)]
            if kind == BESIDE:
                beside = Tally()
                maker = self._maker(ADAPTATIONS)
                asking += [pool.submit(self._ask, maker, beside) for _ in range(connections)]
            for each in asking:
                each.result()
        tally.seconds = time.perf_counter() - began
        used = time.process_time() - client, self.server.front_cpu_seconds() - front
        return Turn(tally, *used)

    def _maker(self, kind: str) -> Callable[[], Mapping[str, Any]]:
        if kind == ADAPTATIONS:
            return lambda: adaptation(next(self.numbers), self.sizes)
        return prediction

    def _ask(self, make: Callable[[], Mapping[str, Any]], tally: Tally) -> None:
        ends = time.perf_counter() + self.sizes.seconds
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, _ANSWER_SECONDS)
        with contextlib.closing(connection):
            while (began := time.perf_counter()) < ends:
                error = post(connection, make())
                if error is None:
                    tally.milliseconds.append((time.perf_counter() - began) * 1e3)
                elif tally.milliseconds:
                    tally.refused += 1
                else:
                    raise RuntimeError(f"the first request has failed: {error}")


def post(connection: http.client.HTTPConnection, inputs: Mapping[str, Any]) -> str | None:
    """Send a request; return None if its prediction succeeded, else what was answered."""
    body = json.dumps({"input": dict(inputs)})
    connection.request("POST", "/predictions", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    is_good = json.loads(content).get("status") == "succeeded"
    return None if is_good else content.decode(errors="replace")[:500]


def prediction() -> Mapping[str, Any]:
    """Return the inputs of a prediction by the base."""
    return {"text": "The parcel never came.", "labels": sorted(sets.load("tickets").texts)}


def adaptation(number: int, sizes: Sizes) -> Mapping[str, Any]:
    """Return the inputs of an adaptation that no other number has."""
    texts = sets.load("tickets").texts
    rows = [
        {"text": text, "label": label} for label in texts for text in texts[label][: sizes.examples]
    ]
    own = {"text": "The parcel never came.", "fresh": True}
    return own | {"examples": rows, "method": "lora", "steps": sizes.steps, "seed": number}


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
    while "degraded" in _readiness(server):
        if time.monotonic() > deadline:
            raise RuntimeError(f"not all workers got ready: {_readiness(server)}")
        time.sleep(0.1)


def _readiness(server: Served) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    with contextlib.closing(connection):
        connection.request("GET", "/readyz")
        return connection.getresponse().read().decode()


def measure(sizes: Sizes) -> dict[tuple[str, int], list[Turn]]:
    """Let servers of one and of two workers take turns at each kind of work."""
    with contextlib.ExitStack() as stack:
        clients = {
            workers: Client(stack.enter_context(started(workers)), sizes) for workers in WORKERS
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
        lines.append("| " + " | ".join(show(row[t]) for t, show in report.columns.items()) + " |")
    lines += ["", *(f"- {name}: {value}" for name, value in report.settings.items())]
    return "\n".join(lines) + "\n"


_READING = "Both servers take turns in one run; a rate has its median and range over the rounds."


def main() -> None:
    """Measure one and two workers; write the page beside the numbers."""
    chosen = arguments(main.__doc__)
    sizes = QUICK if chosen.quick else Sizes()
    cores = len(os.sched_getaffinity(0))
    facts = {
        "rounds": sizes.rounds,
        "seconds a turn": sizes.seconds,
        "requests in flight": sizes.connections,
        "cores": cores,
        "threads of a worker": 1,
        "steps of an adaptation": sizes.steps,
        "examples of a label": sizes.examples,
    }
    found = rows(measure(sizes), cores)
    report = Report("One worker and two", COLUMNS, found, facts)
    report.publish(choose_precision(RunnerSettings(device="cpu")), chosen.output)
    if chosen.output is not None:
        chosen.output.with_suffix(".md").write_text(as_markdown(report), "utf-8")


if __name__ == "__main__":
    main()
