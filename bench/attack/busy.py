"""A second caller of the busy real model waits only for the running tick of an adaptation.

Two owners adapt three times at once, and one of them also sends long predictions. The second
caller's wait is counted in ticks of the model thread, so that a loaded machine changes
nothing.
"""

import re
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.attack.asking import document_of, get, row_of, send_json
from bench.attack.watcher import watched
from cog_adapt.server.command.local_server import local_server
from cog_adapt.server.middleware.keys import make_key

DOOR = {"COG_PREDICT_TYPE_STUB": "bench/attack/timed.py:Timed", "COG_MAX_CONCURRENCY": "8"}
NAME = "the real model is busy"
WATCHED = "watched"  # the owner's name, as in `timed`, which cannot be imported without the model
ADAPTATIONS = (("ann", 1), ("ann", 2), ("bob", 3))  # the owner, and the seed
MOST_STEPS = 0  # that begin while the second caller waits
_LONG_TEXTS = 400
_EXAMPLES = Path(__file__).parents[2] / "examples" / "tickets.jsonl"
_GAUGE = re.compile(rb"^cog_model_(\w+) (\S+)$", re.MULTILINE)

Answers = Counter[str]


def measure_busy(seconds: float) -> dict[str, Any]:
    """Return the row of so many seconds of adaptations, with the numbers of ticks."""
    with _keys() as (keys, file), local_server("predict", DOOR | {"API_KEYS_FILE": file}) as server:
        address = server.url.removeprefix("http://")
        document_of(address, keys[WATCHED])
        for key in keys.values():
            send_json(address, key, {"text": "warm"})
        with watched(address, keys[WATCHED]) as samples:
            time.sleep(1.0)
            began = time.monotonic()
            answers = _keep_busy(address, keys, seconds)
            ended = time.monotonic()
        metrics = get(address, keys[WATCHED], "/metrics") or b""
    gauges = {name.decode(): float(value) for name, value in _GAUGE.findall(metrics)}
    row = row_of(NAME, began, ended, answers, samples)
    row["longest tick ms"] = gauges.get("longest_tick_seconds", 0.0) * 1000
    for name in ("steps_taken", "watched_pieces", "most_steps_waited"):
        row[name.replace("_", " ")] = int(gauges.get(name, 0))
    return row


@contextmanager
def _keys() -> Iterator[tuple[dict[str, str], str]]:
    """Make a key for each owner; yield them, and the path of the server's file."""
    made = {name: make_key(name, ("predict",)) for name in ("ann", "bob", WATCHED)}
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write("".join(f"{line}\n" for _, line in made.values()))
        file.flush()
        yield {name: key for name, (key, _) in made.items()}, file.name


def _keep_busy(address: str, keys: dict[str, str], seconds: float) -> Answers:
    """Adapt three times at once, with long predictions besides; return all statuses."""
    with ThreadPoolExecutor(len(ADAPTATIONS)) as threads:
        running = [
            threads.submit(_adapt, address, keys[owner], seed, seconds)
            for owner, seed in ADAPTATIONS
        ]
        statuses = _predict_meanwhile(address, keys["bob"], running)
        statuses += [each.result() for each in running]
    return Counter(f"{status // 100}xx" for status in statuses)


def _adapt(address: str, key: str, seed: int, seconds: float) -> int:
    inputs = {"text": "w", "examples": _EXAMPLES.read_text(), "steps": 2000, "method": "lora"}
    return send_json(address, key, inputs | {"budget_seconds": seconds, "seed": seed})


def _predict_meanwhile(address: str, key: str, running: list[Future[int]]) -> list[int]:
    statuses: list[int] = []
    while not all(each.done() for each in running):
        texts = [f"{len(statuses)} {number} " + "words " * 40 for number in range(_LONG_TEXTS)]
        statuses.append(send_json(address, key, {"texts": texts}))
    return statuses


def late_busy(row: dict[str, Any]) -> list[str]:
    """Say if the second caller waited for more than a tick, or nothing was measured."""
    waited, pieces = row["most steps waited"], row["watched pieces"]
    if waited <= MOST_STEPS and pieces and row["steps taken"]:
        return []
    return [
        f"{NAME}: {waited} of {row['steps taken']} steps began while one of {pieces} pieces of the "
        f"second caller's work waited, the limit is {MOST_STEPS}"
    ]
