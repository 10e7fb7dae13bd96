"""Times one owner's short predictions while another owner gives the server one kind of work.

The server runs the shipped predictor. For long ticks of its model thread, the result contains the
most frequent stack.
"""

import itertools
import json
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.attack.asking import document_of, row_of, send_json
from bench.attack.watcher import watched
from bench.attack.work import KINDS, PREPARED, Caller, Round
from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.middleware.keys import make_key

LIMIT_MS = 250.0  # of the 99th percentile of the other owner's predictions
_DOOR = {"COG_PREDICT_TYPE_STUB": "bench/attack/timed.py:Timed"}
_CONNECTIONS = 4  # of the owner that gives work
_SHOWN = 3


def measure_neighbours(
    seconds: float, kinds: dict[str, Round] = KINDS, quiet: float = 2.0
) -> list[dict[str, Any]]:
    """Return a row without work and a row for each kind, each of so many seconds.

    The `quiet` seconds pass before a row's first sample, and again before its first work.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        keys = {owner: make_key(owner, ("predict",)) for owner in ("ann", "bob")}
        (folder / "keys").write_text("".join(f"{line}\n" for _, line in keys.values()))
        ticks = folder / "ticks"
        settings = {"API_KEYS_FILE": str(folder / "keys"), "TICKS_FILE": str(ticks)}
        ann, bob = (key for key, _ in keys.values())
        with local_server("predict", _DOOR | settings) as server:
            address = server.url.removeprefix("http://")
            document_of(address, bob)
            send_json(address, ann, {"text": "warm", "labels": ["one", "two"]})
            spans = _Spans(quiet, seconds)
            rows = [_measure(address, (ann, bob), "nothing", None, spans)]
            rows += _beside(address, (ann, bob), spans, kinds, ticks)
        return rows


class _Spans(NamedTuple):
    """The seconds of a row without work, twice, and then with work."""

    quiet: float
    work: float


def _beside(
    address: str, keys: tuple[str, str], spans: _Spans, kinds: dict[str, Round], ticks: Path
) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of work."""
    for kind, ask in kinds.items():
        ticks.write_text("")
        row = _measure(address, keys, kind, ask, spans)
        yield row | {"long ticks": _long_ticks(ticks)}


def _measure(
    address: str, keys: tuple[str, str], kind: str, ask: Round | None, spans: _Spans
) -> dict[str, Any]:
    """Time the second owner while the first one works."""
    answers: Counter[str] = Counter()
    numbers = itertools.count(int(time.monotonic() * 1000))
    made: dict[str, tuple[str, bytes]] = {}
    callers = [Caller(address, keys[0], made) for _ in range(_CONNECTIONS if ask else 0)]
    if kind in PREPARED:
        for caller in callers:
            PREPARED[kind](caller)
    time.sleep(spans.quiet)
    with watched(address, keys[1]) as samples:
        time.sleep(spans.quiet)
        began = time.monotonic()
        until = began + spans.work
        threads = [
            threading.Thread(target=_work, args=(caller, ask, numbers, until, answers))
            for caller in callers
        ]
        for thread in threads:
            thread.start()
        time.sleep(spans.work)
        ended = time.monotonic()
        for thread in threads:
            thread.join()
    return row_of(f"beside: {kind}", began, ended, answers, samples)


def _work(
    caller: Caller,
    ask: Round,
    numbers: "itertools.count[int]",
    until: float,
    answers: Counter[str],
) -> None:
    while time.monotonic() < until:
        status = ask(caller, next(numbers))
        answers[f"{status // 100}xx" if status else "refused"] += 1
    caller.close()


def _long_ticks(path: Path) -> list[str]:
    """Return the longest ticks by the thread's place, each with its count."""
    seen = [json.loads(line) for line in path.read_text().splitlines()]
    longest: dict[str, float] = {}
    counts = Counter(each["frames"] for each in seen)
    for each in seen:
        longest[each["frames"]] = max(longest.get(each["frames"], 0.0), each["seconds"])
    first = sorted(longest.items(), key=lambda found: -found[1])[:_SHOWN]
    return [f"{seconds:.2f} s ({counts[frames]}): {frames}" for frames, seconds in first]


def late_neighbours(rows: list[dict[str, Any]]) -> list[str]:
    """Say which kinds of work delay another owner for longer than the limit."""
    return [
        f"{row['attack']}: another owner's p99 is {row['no-op p99 ms']:.0f} ms, the limit is "
        f"{LIMIT_MS:.0f}"
        for row in rows
        if row["no-op p99 ms"] > LIMIT_MS
    ]
