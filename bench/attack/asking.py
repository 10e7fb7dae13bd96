"""Asks a server on the loopback interface, and makes a row of a second caller's answers."""

import http.client
import json
import statistics
import time
from collections import Counter
from typing import Any

from bench.attack.watcher import Sample

LIMITS = {"no-op": 250.0, "healthz": 50.0}  # milliseconds of the 99th percentile
PATIENCE = 120.0
_READY_SECONDS = 120.0


def document_of(address: str, key: str, patience: float = _READY_SECONDS) -> dict[str, Any]:
    """Wait until the server is ready; return its OpenAPI document."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        found = get(address, key, "/openapi.json") if get(address, key, "/readyz") else None
        if found:
            document: dict[str, Any] = json.loads(found)
            return document
        time.sleep(0.1)
    raise TimeoutError(f"not ready after {patience:g} s; see the server's log")


def get(address: str, key: str, path: str) -> bytes | None:
    """Return the body of an answer with status 200, else None."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
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


def send_json(address: str, key: str, inputs: dict[str, Any]) -> int:
    """Send a prediction; return the status of the answer."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        connection.request("POST", "/predictions", json.dumps({"input": inputs}), headers)
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def row_of(
    name: str, began: float, ended: float, answers: Counter[str], samples: list[Sample]
) -> dict[str, Any]:
    """Return how the second caller was answered between two moments."""
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
