"""A second caller of the real model while it adapts waits for the running tick, and no longer."""

import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.attack.asking import document_of, get, row_of, send_json
from bench.attack.watcher import watched
from cog_adapt.command.local_server import local_server

DOOR = {"COG_PREDICT_TYPE_STUB": "bench/attack/timed.py:Timed", "COG_MAX_CONCURRENCY": "8"}
NAME = "the real model adapts"
MARGIN = 100.0  # milliseconds: two processes, and the loop that looks for an answer every 2 ms
_EXAMPLES = Path(__file__).parents[2] / "examples" / "tickets.jsonl"
_TICK = re.compile(rb"^cog_model_longest_tick_seconds (\S+)$", re.MULTILINE)


def measure_busy(seconds: float) -> dict[str, Any]:
    """Return the row of an adaptation of so many seconds, with the longest tick in it."""
    with local_server("predict", DOOR) as server:
        address, key = server.url.removeprefix("http://"), server.key or ""
        document_of(address, key)
        send_json(address, key, {"text": "warm"})
        with watched(address, key) as samples:
            time.sleep(1.0)
            alone = time.monotonic()
            time.sleep(seconds / 2)
            began = time.monotonic()
            status = _adapt(address, key, seconds)
            ended = time.monotonic()
        metrics = get(address, key, "/metrics") or b""
    found = _TICK.search(metrics)
    row = row_of(NAME, began, ended, Counter({f"{status // 100}xx": 1}), samples)
    before = row_of("none", alone, began, Counter(), samples)
    row["alone p99 ms"] = before["no-op p99 ms"]
    return row | {"longest tick ms": float(found[1]) * 1000 if found else 0.0}


def _adapt(address: str, key: str, seconds: float) -> int:
    inputs = {"text": "w", "examples": _EXAMPLES.read_text(), "steps": 2000}
    return send_json(address, key, inputs | {"budget_seconds": seconds})


def late_busy(row: dict[str, Any]) -> list[str]:
    """Say if the second caller waited for longer than the running tick and its own work."""
    limit = row["longest tick ms"] + row["alone p99 ms"] + MARGIN
    if row["longest tick ms"] and row["no-op p99 ms"] <= limit:
        return []
    return [f"{NAME}: {row['no-op p99 ms']:.0f} ms, the limit is {limit:.0f}"]
