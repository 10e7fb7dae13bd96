"""Looks for what a server retains of finished requests: descriptors, threads, memory, disk.

The server runs the real model, with one set of folders and small budgets. After a warm-up come many
predictions, cancelled adaptations, and adaptations of every method. Memory is flat if no process
has grown in the last third of a load by more than `FLAT_MEGABYTES`: caches are full by then.
"""

import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from bench.report import Columns, Report, arguments
from cog_adapt.runner.config import METHODS, RunnerSettings
from cog_adapt.runner.devices.device import choose_precision
from cog_adapt.server.command.local_server import local_server

READY_SECONDS = 300.0
RECORD_BYTES = 50 * 2**20
EVENT_BYTES = 2**18  # so that what is kept for late readers is full after a tenth of a load
MORE_DESCRIPTORS = 8
MORE_MEGABYTES = 150.0
FLAT_MEGABYTES = {"front": 1.0, "worker": 8.0, "others": 1.0}
ADAPTER_DISK_BYTES = 150 * 2**20
ADAPTER_MEMORY_BYTES = 20 * 2**20
EXAMPLES = [
    {"text": text, "label": label}
    for label, texts in {
        "parcel": ("where is it", "late"),
        "money": ("refund", "paid twice"),
    }.items()
    for text in texts
]
_MEGABYTE = 2**20


@dataclass(frozen=True)
class Sizes:
    """The number of each; a warm-up makes some of them before."""

    predictions: int = 2000
    cancels: int = 2000
    adaptations: int = 300
    warm: int = 10


COLUMNS: Columns = {
    "after": str,
    "descriptors": str,
    "threads": str,
    "memory MB": lambda value: f"{value:.0f}",
    "front MB": lambda value: f"{value:.0f}",
    "front's last third": lambda value: f"{value:+.1f}",
    "worker MB": lambda value: f"{value:.0f}",
    "worker's last third": lambda value: f"{value:+.1f}",
    "records MB": lambda value: f"{value:.1f}",
    "adapters MB": lambda value: f"{value:.1f}",
    "checkpoints": str,
    "temporary files": str,
}


def measure(sizes: Sizes) -> list[dict[str, Any]]:
    """Return a row for the warm server, and one after each load."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tmp").mkdir()
        variables = {
            "DATA_DIR": str(folder / "data"),
            "DATABASE_URL": "",  # in that folder
            "WEIGHTS_DIR": str(folder / "weights"),
            "TMPDIR": str(folder / "tmp"),
            "RECORD_BYTES": str(RECORD_BYTES),
            "EVENT_BYTES": str(EVENT_BYTES),
            "ADAPTER_DISK_BYTES": str(ADAPTER_DISK_BYTES),
            "ADAPTER_OWNER_DISK_BYTES": str(ADAPTER_DISK_BYTES),
            "ADAPTER_MEMORY_BYTES": str(ADAPTER_MEMORY_BYTES),
            "SERVED_ADAPTER_BYTES": str(ADAPTER_MEMORY_BYTES),
        }
        with local_server("predict", variables) as server, _client(server) as client:
            _wait_until_ready(client)
            return list(_rows(client, sizes, folder))


def _rows(client: httpx2.Client, sizes: Sizes, folder: Path) -> Iterator[dict[str, Any]]:
    _predict(client, sizes.warm)
    _cancel(client, sizes.warm)
    _adapt(client, max(sizes.warm, 2 * len(METHODS)))
    now = _memory()
    yield _row("warm-up", folder, now, now)
    for load, count, what in (
        (_predict, sizes.predictions, "predictions"),
        (_cancel, sizes.cancels, "cancels"),
        (_adapt, sizes.adaptations, "adaptations"),
    ):
        load(client, count - count // 3)
        before = _memory()
        load(client, count // 3)
        yield _row(f"{count} {what}", folder, before, _memory())


def leaks(rows: list[dict[str, Any]]) -> list[str]:
    """Say what grew from the first row to a later one, or is beyond its limit."""
    return [words for row in rows[1:] for words in (*_grown(row, rows[0]), *_beyond(row))]


def _grown(row: dict[str, Any], first: dict[str, Any]) -> Iterator[str]:
    if row["descriptors"] > first["descriptors"] + MORE_DESCRIPTORS:
        yield f"descriptors: {row['descriptors']} after {row['after']}"
    if row["memory MB"] > first["memory MB"] + MORE_MEGABYTES:
        yield f"memory: {row['memory MB']:.0f} MB after {row['after']}"
    for name, limit in FLAT_MEGABYTES.items():
        if (grown := row[f"{name}'s last third"]) > limit:
            yield f"{name}: {grown:+.1f} MB in the last third of {row['after']}"


def _beyond(row: dict[str, Any]) -> Iterator[str]:
    for what, limit in (("adapters", ADAPTER_DISK_BYTES), ("records", RECORD_BYTES)):
        if (size := row[f"{what} MB"]) * _MEGABYTE > limit:
            yield f"{what}: {size:.1f} MB after {row['after']}"
    if row["checkpoints"] or row["temporary files"]:
        yield f"files are left after {row['after']}"


def _client(server: Any) -> httpx2.Client:  # noqa: ANN401 - the command's client
    headers = {"Authorization": f"Bearer {server.key}"}
    return httpx2.Client(base_url=server.url, headers=headers, timeout=600.0)


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


def _predict(client: httpx2.Client, count: int) -> None:
    for number in range(count):
        _run(client, {"text": f"Where is parcel {number}?", "labels": ["parcel", "money"]})


def _cancel(client: httpx2.Client, count: int) -> None:
    inputs = {"text": "late", "examples": EXAMPLES, "steps": 2000, "budget_seconds": 60}
    for _ in range(count):
        headers = {"Prefer": "respond-async"}
        begun = client.post("/predictions", json={"input": inputs}, headers=headers)
        begun.raise_for_status()
        path = f"/predictions/{begun.json()['id']}"
        client.post(f"{path}/cancel").raise_for_status()
        while client.get(path).json()["status"] in ("starting", "processing"):
            time.sleep(0.002)


def _adapt(client: httpx2.Client, count: int) -> None:
    """Adapt by each method in turn; adaptations differ, except those by `all`, of 90 MB each."""
    for number in range(count):
        method = METHODS[number % len(METHODS)]
        seed = 0 if method == "all" else time.monotonic_ns() % 10**9
        inputs = {"text": "late", "examples": EXAMPLES, "steps": 2, "method": method, "seed": seed}
        _run(client, inputs)


def _run(client: httpx2.Client, inputs: dict[str, Any]) -> None:
    answer = client.post("/predictions", json={"input": inputs})
    answer.raise_for_status()
    if answer.json()["status"] != "succeeded":
        raise RuntimeError(f"a prediction has not succeeded: {answer.text[:500]}")


def _row(
    after: str, folder: Path, before: dict[str, float], now: dict[str, float]
) -> dict[str, Any]:
    processes = _processes()
    row = {
        "after": after,
        "descriptors": sum(len(os.listdir(each / "fd")) for each in processes),
        "threads": sum(len(os.listdir(each / "task")) for each in processes),
        "memory MB": sum(now.values()),
    }
    for name, megabytes in now.items():
        row |= {f"{name} MB": megabytes, f"{name}'s last third": megabytes - before[name]}
    return row | {
        "records MB": _size_of(folder / "data") / _MEGABYTE,
        "adapters MB": _size_of(folder / "weights" / "adapters") / _MEGABYTE,
        "checkpoints": len([*(folder / "weights").glob("checkpoints/*")]),
        "temporary files": len([each for each in (folder / "tmp").glob("tmp*") if each.is_file()]),
    }


def _memory() -> dict[str, float]:
    """Return the megabytes of the server's process, of the model's, and of all others."""
    time.sleep(1.0)  # for what is written behind
    front, *others = _processes()
    sizes = sorted(_resident_bytes(each) / _MEGABYTE for each in others)
    return {
        "front": _resident_bytes(front) / _MEGABYTE,
        "worker": sizes[-1],
        "others": sum(sizes[:-1]),
    }


def _processes() -> list[Path]:
    """Return the server's process, and then the processes that it started."""
    return [Path("/proc") / str(pid) for pid in _descendants(os.getpid())]


def _descendants(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found


def _resident_bytes(process: Path) -> int:
    return int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Look for leaks."""
    chosen = arguments(main.__doc__)
    sizes = Sizes(20, 20, 10, 5) if chosen.quick else Sizes()
    rows = measure(sizes)
    report = Report("What a server keeps", COLUMNS, rows, vars(sizes))
    report.publish(choose_precision(RunnerSettings.from_environment()), chosen.output)
    found = leaks(rows)
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
