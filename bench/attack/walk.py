"""Walks hostile values through every input, field, header and path, and times a second caller.

Then one owner gives each kind of work while another owner's predictions are timed (`neighbours`),
and the kinds of pictures and of speech are served and attacked (`kinds`).

The server and all requests to it stay on the loopback interface, and end with the walk.
"""

import argparse
import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.attack import values
from bench.attack.asking import LIMITS, PATIENCE, document_of, row_of
from bench.attack.busy import late_busy, measure_busy
from bench.attack.drips import dripping
from bench.attack.kinds import measure_kinds, wrong_kinds
from bench.attack.neighbours import late_neighbours, measure_neighbours
from bench.attack.watcher import watched
from bench.report import Columns, Report, arguments
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.server.command.local_server import local_server

DOORS = {
    "COG_PREDICT_TYPE_STUB": "bench/attack/noop.py:NoOp",
    "COG_TRAIN_TYPE_STUB": "bench/attack/noop.py:NoTraining",
}
_ATTACKERS = 2


@dataclass(frozen=True)
class Sizes:
    """How many bytes a value has, how often small ones come, and how long the rest lasts."""

    small: int = 2_000_000
    large: tuple[int, ...] = (24_000_000, 99_000_000)
    repeats: int = 10
    drips: int = 50
    drip_seconds: float = 10.0
    busy_seconds: float = 20.0
    neighbour_seconds: float = 20.0
    kind_seconds: float = 10.0


QUICK = Sizes(
    small=200_000,
    large=(2_000_000,),
    repeats=3,
    drips=10,
    drip_seconds=1.0,
    busy_seconds=4.0,
    neighbour_seconds=4.0,
    kind_seconds=0.5,
)


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
    for name, value in _hostile(properties, size):
        yield _post(b'{"input":{"texts":["a"],%b:%b}}' % (name, value))


def _trainings(properties: dict[str, Any], size: int) -> Iterator[Attack]:
    for name, value in _hostile(properties, size):
        yield Attack("POST", "/trainings", _JSON, b'{"input":{%b:%b}}' % (name, value))


def _hostile(properties: dict[str, Any], size: int) -> Iterator[tuple[bytes, bytes]]:
    for name, schema in properties.items():
        own = itertools.chain(values.of_type(schema, size), values.of_any_type(min(size, 300_000)))
        for value in own:
            yield json.dumps(name).encode(), value


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
    schemas = document["components"]["schemas"]
    properties = schemas["Input"]["properties"]
    small = b'{"input":{"text":"a"}}'
    return {
        "inputs": _inputs(properties, sizes.small),
        "trainings": _trainings(schemas["TrainingInput"]["properties"], sizes.small),
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
    """Return the class of the answer's status; `refused` if the connection ended instead."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
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
"""An action, its two moments, and the class of its answer."""


def measure(sizes: Sizes) -> list[dict[str, Any]]:
    """Return a row for each group of attacks."""
    with local_server("predict", DOORS | {"BODY_SECONDS": "5"}) as server:
        address, key = server.url.removeprefix("http://"), server.key or ""
        document = document_of(address, key)
        with watched(address, key) as samples:
            spans = list(_spans(address, key, document, sizes))
    return [row_of(*span, samples) for span in spans]


def _spans(address: str, key: str, document: dict[str, Any], sizes: Sizes) -> Iterator[Span]:
    """Carry out the attacks, one group after another."""
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


def late(rows: list[dict[str, Any]]) -> list[str]:
    """Return the answers that took longer than allowed."""
    return [
        f"{row['attack']}: {what} {row[f'{what} p99 ms']:.0f} ms, the limit is {limit:.0f}"
        for row in rows
        for what, limit in LIMITS.items()
        if row[f"{what} p99 ms"] > limit
    ]


def _options(parser: argparse.ArgumentParser) -> None:
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--beside", action="store_true", help="measure only kinds of work beside another owner"
    )
    only.add_argument(
        "--kinds", action="store_true", help="attack only the kinds of pictures and of speech"
    )
    parser.add_argument(
        "--only", nargs="+", default=[""], help="with --kinds: parts of names of rows"
    )


Found = tuple[list[dict[str, Any]], list[str]]
"""Rows, and the sentences about late or wrong answers in them."""


def _attacked(sizes: Sizes, _: Sequence[str]) -> Found:
    """Attack the template's predictors."""
    walked, busy = measure(sizes), measure_busy(sizes.busy_seconds)
    return [*walked, busy], late(walked) + late_busy(busy)


def _neighbours(sizes: Sizes, _: Sequence[str]) -> Found:
    rows = measure_neighbours(sizes.neighbour_seconds)
    return rows, late_neighbours(rows)


def _kinds(sizes: Sizes, only: Sequence[str]) -> Found:
    rows = measure_kinds(sizes.kind_seconds, few=sizes is QUICK, only=only)
    return rows, wrong_kinds(rows)


def main() -> None:
    """Attack servers of its own, and time a second caller."""
    chosen = arguments(main.__doc__, _options)
    if chosen.only != [""] and not chosen.kinds:
        raise SystemExit("--only chooses rows of --kinds; add --kinds.")
    sizes = QUICK if chosen.quick else Sizes()
    parts = {_neighbours: not chosen.kinds, _kinds: not chosen.beside}
    parts = {_attacked: not (chosen.kinds or chosen.beside)} | parts
    found = [part(sizes, chosen.only) for part, is_wanted in parts.items() if is_wanted]
    rows = [row for each, _ in found for row in each]
    title = "A second caller while hostile values come, ms"
    report = Report(title, COLUMNS, rows, vars(sizes))
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)
    if missed := [line for _, lines in found for line in lines]:
        raise SystemExit("\n".join(["too late, or wrong:", *missed]))
