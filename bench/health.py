"""Measures how fast the server answers health requests while its model adapts.

One request carries the examples of `examples/tickets.jsonl` and adapts for as long as the
measurement takes. Meanwhile the client asks in turn for the health check (which calls the
predictor's own `healthcheck()`), liveness and readiness.
"""

import statistics
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from bench.report import Columns, Report, Spread, arguments, milliseconds
from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.server.command.local_server import local_server

PATHS = ("/health-check", "/healthz", "/readyz")
EXAMPLES = Path(__file__).parent.parent / "examples" / "tickets.jsonl"
READY_SECONDS = 300.0


@dataclass(frozen=True)
class Sizes:
    """How long to measure, in seconds, both idle and during the adaptation."""

    seconds: float = 20.0
    pause: float = 0.02


COLUMNS: Columns = {
    "path": str,
    "model": str,
    "ms": milliseconds,
    "99 %": lambda value: f"{value:.1f}",
    "worst": lambda value: f"{value:.1f}",
}


def measure(sizes: Sizes) -> list[dict[str, Any]]:
    """Return rows for each path, idle and during the adaptation."""
    with local_server("predict", {}) as server:
        headers = {"Authorization": f"Bearer {server.key}"}
        client = httpx2.Client(base_url=server.url, headers=headers, timeout=600.0)
        with client:
            _wait_until_ready(client)
            rows = _watch(client, sizes, "rests")
            adaptation = threading.Thread(target=_adapt, args=(client, sizes.seconds + 5))
            adaptation.start()
            time.sleep(1.0)
            rows += _watch(client, sizes, "adapts")
            adaptation.join()
    return rows


def _wait_until_ready(client: httpx2.Client) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if _is_ready(client):
            return
        time.sleep(0.1)
    raise TimeoutError(f"not ready after {READY_SECONDS:g} s; see the server's log")


def _is_ready(client: httpx2.Client) -> bool:
    try:
        return client.get("/readyz").status_code == 200
    except httpx2.TransportError:
        return False


def _adapt(client: httpx2.Client, seconds: float) -> None:
    inputs = {
        "text": "Where is my parcel?",
        "examples": EXAMPLES.read_text(),
        "steps": 2000,
        "budget_seconds": seconds,
    }
    client.post("/predictions", json={"input": inputs}).raise_for_status()


def _watch(client: httpx2.Client, sizes: Sizes, model: str) -> list[dict[str, Any]]:
    times: dict[str, list[float]] = {path: [] for path in PATHS}
    end = time.monotonic() + sizes.seconds
    while time.monotonic() < end:
        for path in PATHS:
            times[path].append(_ask(client, path))
            time.sleep(sizes.pause)
    return [_row(path, model, values) for path, values in times.items()]


def _ask(client: httpx2.Client, path: str) -> float:
    """Return the milliseconds until the answer."""
    began = time.perf_counter()
    answer = client.get(path)
    elapsed = (time.perf_counter() - began) * 1000
    answer.raise_for_status()
    return elapsed


def _row(path: str, model: str, values: list[float]) -> dict[str, Any]:
    percentiles = statistics.quantiles(values, n=100)
    spread = Spread.of(values)
    return {
        "path": path,
        "model": model,
        "ms": spread,
        "99 %": percentiles[98],
        "worst": spread.high,
    }


def main() -> None:
    """Measure health, liveness and readiness while the model rests and adapts."""
    chosen = arguments(main.__doc__)
    sizes = Sizes(seconds=2.0) if chosen.quick else Sizes()
    report = Report("Answers while the model adapts, ms", COLUMNS, measure(sizes), vars(sizes))
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)


if __name__ == "__main__":
    main()
