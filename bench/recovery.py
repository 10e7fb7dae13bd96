"""Measures how soon the server is ready again after its model process was killed.

At each kill a prediction is in flight, which must fail immediately. `overhead` is the time until
readiness minus the set-up time that health reports; the goal is 2 s at most.
"""

import os
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2

from bench.report import Columns, Report, Row, Spread, arguments, milliseconds
from bench.serving_servers import mirror, models_of
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

MOST_SECONDS = 30.0
PAUSE = 0.002


@dataclass(frozen=True)
class Sizes:
    """The number of kills."""

    kills: int = 20


COLUMNS: Columns = {
    "what": str,
    "ms": milliseconds,
    "worst": lambda value: f"{value:.1f}",
}


def measure(sizes: Sizes) -> list[Row]:
    """Return rows for the time until the prediction failed, until ready, and without set-up."""
    with tempfile.TemporaryDirectory() as folder, mirror(Path(folder), "Slow") as served:
        url = f"http://127.0.0.1:{served.port}"
        with httpx2.Client(base_url=url, timeout=MOST_SECONDS) as client:
            kills = [_kill_once(client, served.pid) for _ in range(sizes.kills)]
    times = {what: [kill[what] for kill in kills] for what in kills[0]}
    return [
        {"what": what, "ms": Spread.of(values), "worst": max(values)}
        for what, values in times.items()
    ]


def _kill_once(client: httpx2.Client, server: int) -> dict[str, float]:
    _predict(client, 0.0)  # a success resets the count of crashes
    ended: list[float] = []
    waiting = threading.Thread(target=lambda: ended.append(_predict(client, MOST_SECONDS)))
    waiting.start()
    while client.get("/health-check").json()["status"] != "BUSY":
        time.sleep(PAUSE)
    began = time.perf_counter()
    os.kill(models_of(server)[0], signal.SIGKILL)
    waiting.join()
    while client.get("/readyz").status_code != 200:
        time.sleep(PAUSE)
    ready = (time.perf_counter() - began) * 1000
    setup = client.get("/health-check").json()["setup"]
    return {
        "failed": (ended[0] - began) * 1000,
        "ready": ready,
        "overhead": ready - _milliseconds_of(setup),
    }


def _predict(client: httpx2.Client, seconds: float) -> float:
    client.post("/predictions", json={"input": {"seconds": seconds}}).raise_for_status()
    return time.perf_counter()


def _milliseconds_of(setup: dict[str, Any]) -> float:
    began, ended = (datetime.fromisoformat(setup[name]) for name in ("started_at", "completed_at"))
    return (ended - began).total_seconds() * 1000


def main() -> None:
    """Measure how soon the server is ready again after its model process was killed."""
    chosen = arguments(main.__doc__)
    sizes = Sizes(kills=3) if chosen.quick else Sizes()
    report = Report("After a kill of the model process, ms", COLUMNS, measure(sizes), vars(sizes))
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)


if __name__ == "__main__":
    main()
