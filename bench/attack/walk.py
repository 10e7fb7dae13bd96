"""Walks hostile values through every input, field, header and path, and times a second caller.

The server and everything that it is asked for are on the loopback interface, and end with the walk.
"""

import http.client
import itertools
import json
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.attack import values
from bench.attack.drips import dripping
from bench.attack.watcher import Sample, watched
from bench.report import Columns, Report, arguments
from cog_adapt.command.local_server import local_server
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.device import choose_precision

DOOR = "bench/attack/noop.py:NoOp"
LIMITS = {"no-op": 250.0, "healthz": 50.0}  # milliseconds of the 99th percentile
_READY_SECONDS = 120.0
_PATIENCE = 120.0
_ATTACKERS = 2


@dataclass(frozen=True)
class Sizes:
    """How many bytes a value has, how often small ones come, and how long drips last."""

    small: int = 2_000_000
    large: tuple[int, ...] = (24_000_000, 99_000_000)
    repeats: int = 10
    drips: int = 50
    drip_seconds: float = 10.0


QUICK = Sizes(small=200_000, large=(2_000_000,), repeats=3, drips=10, drip_seconds=1.0)


class Attack(NamedTuple):
    """One hostile request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None


COLUMNS: Columns = {
    "attack": str,
    "requests": str,
    "answers": str,
    "no-op p99 ms": lambda value: f"{value:.0f}",
    "no-op worst": lambda value: f"{value:.0f}",
    "healthz p99 ms": lambda value: f"{value:.0f}",
    "healthz worst": lambda value: f"{value:.0f}",
}
_JSON = {"Content-Type": "application/json"}


def _post(body: bytes, headers: dict[str, str] = _JSON) -> Attack:
    return Attack("POST", "/predictions", headers, body)


def _inputs(properties: dict[str, Any], size: int) -> Iterator[Attack]:
    for name, schema in properties.items():
        own = itertools.chain(values.of_type(schema, size), values.of_any_type(min(size, 300_000)))
        for value in own:
            yield _post(b'{"input":{"texts":["a"],%b:%b}}' % (json.dumps(name).encode(), value))


def _large(sizes: Iterable[int]) -> Iterator[Attack]:
    for size in sizes:
        yield _post(b'{"input":{"texts":[' + b'"abcdefgh",' * (size // 11) + b'"a"]}}')
        yield from (
            _post(b'{"input":{"texts":%b}}' % value)
            for value in values.of_any_type(size)
            if len(value) > size // 2
        )
        yield from (_post(body) for body in values.of_fields(size) if len(body) > size // 2)


def attacks(document: dict[str, Any], sizes: Sizes) -> dict[str, Iterator[Attack]]:
    """Return the hostile requests by group."""
    properties = document["components"]["schemas"]["Input"]["properties"]
    small = b'{"input":{"text":"a"}}'
    return {
        "inputs": _inputs(properties, sizes.small),
        "fields": (_post(body) for body in values.of_fields(sizes.small)),
        "headers": (
            _post(small, _JSON | headers)
            for _ in range(sizes.repeats)
            for headers in values.headers()
        ),
        "paths": (
            Attack(method, path, _JSON, small)
            for _ in range(sizes.repeats)
            for method, path in values.paths()
        ),
        "large": _large(sizes.large),
    }


def _send(address: str, key: str, attack: Attack) -> str:
    """Return the class of the answer's status; `refused` where the connection ended instead."""
    connection = http.client.HTTPConnection(address, timeout=_PATIENCE)
    try:
        headers = {"Authorization": f"Bearer {key}"} | attack.headers
        body = None if attack.method == "GET" else attack.body
        connection.request(attack.method, attack.path, body, headers)
        answer = connection.getresponse()
        answer.read(1) if attack.path.endswith("/stream") else answer.read()
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"refused ({type(error).__name__})" if isinstance(error, TimeoutError) else "refused"
    else:
        return f"{answer.status // 100}xx"
    finally:
        connection.close()


Span = tuple[str, float, float, Counter[str]]
"""What was done, from when to when, and how it was answered."""


def measure(sizes: Sizes) -> list[dict[str, Any]]:
    """Return a row for each group of attacks."""
    with local_server("predict", {"COG_PREDICT_TYPE_STUB": DOOR, "BODY_SECONDS": "5"}) as server:
        address, key = server.url.removeprefix("http://"), server.key or ""
        document = _document(address, key)
        with watched(address, key) as samples:
            spans = list(_spans(address, key, document, sizes))
    return [_row(*span, samples) for span in spans]


def _spans(address: str, key: str, document: dict[str, Any], sizes: Sizes) -> Iterator[Span]:
    """Carry out the attacks, one group after the other."""
    time.sleep(3.0)
    yield "none", time.monotonic() - 2.0, time.monotonic(), Counter()
    for name, group in attacks(document, sizes).items():
        yield name, *_timed(address, key, group)
    began = time.monotonic()
    with dripping(address, key, sizes.drips) as held:
        time.sleep(sizes.drip_seconds)
    yield "drips", began, time.monotonic(), held


def _timed(address: str, key: str, group: Iterable[Attack]) -> tuple[float, float, Counter[str]]:
    began = time.monotonic()
    with ThreadPoolExecutor(_ATTACKERS) as threads:
        waiting = threading.Semaphore(2 * _ATTACKERS)  # bodies of 100 MB are made one by one
        answers = []
        for attack in group:
            waiting.acquire()
            answers.append(threads.submit(_send, address, key, attack))
            answers[-1].add_done_callback(lambda _: waiting.release())
    return began, time.monotonic(), Counter(answer.result() for answer in answers)


def _document(address: str, key: str) -> dict[str, Any]:
    """Wait until the server is ready; return its OpenAPI document."""
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        found = _get(address, key, "/openapi.json") if _get(address, key, "/readyz") else None
        if found:
            document: dict[str, Any] = json.loads(found)
            return document
        time.sleep(0.1)
    raise TimeoutError(f"not ready after {_READY_SECONDS:g} s; see the server's log")


def _get(address: str, key: str, path: str) -> bytes | None:
    connection = http.client.HTTPConnection(address, timeout=_PATIENCE)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        content = answer.read()
    except OSError:
        return None
    else:
        return content if answer.status == 200 else None
    finally:
        connection.close()


def _row(
    name: str, began: float, ended: float, answers: Counter[str], samples: list[Sample]
) -> dict[str, Any]:
    times = {
        what: [s.milliseconds for s in samples if s.name == what and began <= s.began <= ended]
        for what in LIMITS
    }
    row: dict[str, Any] = {"attack": name, "requests": answers.total()}
    row["answers"] = ", ".join(f"{count} {status}" for status, count in sorted(answers.items()))
    for what, found in times.items():
        parts = statistics.quantiles(
            [*found, 0.0, 0.0][: max(2, len(found))], n=100, method="inclusive"
        )
        row |= {f"{what} p50 ms": parts[49], f"{what} p99 ms": parts[98]}
        row[f"{what} worst"] = max(found, default=0.0)
    lost = [s for s in samples if s.status != 200 and began <= s.began <= ended]
    return row | {"others refused": len(lost)}


def late(rows: list[dict[str, Any]]) -> list[str]:
    """Return what took longer than it may."""
    return [
        f"{row['attack']}: {what} {row[f'{what} p99 ms']:.0f} ms, the limit is {limit:.0f}"
        for row in rows
        for what, limit in LIMITS.items()
        if row[f"{what} p99 ms"] > limit
    ]


def main() -> None:
    """Attack a server of its own, and time a second caller."""
    chosen = arguments(main.__doc__)
    sizes = QUICK if chosen.quick else Sizes()
    rows = measure(sizes)
    report = Report("A second caller while hostile values come, ms", COLUMNS, rows, vars(sizes))
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)
    if missed := late(rows):
        raise SystemExit("\n".join(["too late:", *missed]))
