"""Small measurements of this machine: an adapter's way from the disk, and commits of records."""

import asyncio
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import torch

from cog_adapt.runner.modules.adapters import Adapter, adapter_from_bytes
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.server.records.record import Record
from cog_adapt.server.records.store import Records

SIZES = {"300 KB": (12, 384, 8), "100 MB": (128, 4096, 24)}
"""Pairs, width and rank of the adapters of each size: 12 · 2 · 384 · 8 numbers of 4 bytes."""


def milliseconds(call: Callable[[], object], count: int) -> float:
    """Return the median of calls, after one that is not counted."""
    call()
    times = []
    for _ in range(count):
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1e3)
    return statistics.median(times)


@dataclass(frozen=True)
class Way:
    """Milliseconds of an adapter's way to the device, each part alone.

    Attributes:
        nbytes: of its tensors.
        read: the file, from the page cache.
        decode: the tensors, and the digest that is checked.
        store: a read of `file://` by the store's library: what the store itself adds is not in it.
    """

    nbytes: int
    read: float
    decode: float
    store: float


def way(name: str, count: int) -> Way:
    """Measure the way of an adapter of one of `SIZES`."""
    pairs, width, rank = SIZES[name]
    tensors = {}
    for number in range(pairs):
        tensors[f"{number}.lora_a"] = torch.randn(rank, width)
        tensors[f"{number}.lora_b"] = torch.randn(width, rank)
    adapter = Adapter(tensors, (), "lora", "0" * 16)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "adapter.safetensors"
        path.write_bytes(adapter.to_bytes())
        content, key = path.read_bytes(), ("", adapter.id)
        remote = Remote(f"file://{folder}/store")
        remote.write(key, content)
        read = milliseconds(path.read_bytes, count)
        return Way(
            nbytes=adapter.nbytes,
            read=read,
            decode=milliseconds(lambda: adapter_from_bytes(content, name).id, count),
            store=milliseconds(lambda: remote.read(key), count),
        )


@dataclass(frozen=True)
class Commits:
    """What one database takes.

    Attributes:
        servers: that write at once.
        records: finished a second, each accepted durably before it ran: two writes.
    """

    servers: int
    records: float


def commits(url: str, servers: int, seconds: float, callers: int = 32) -> Commits:
    """Measure records a second, with so many predictions of each server under way."""
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_commits(url, Path(folder), servers, seconds, callers))


async def _commits(url: str, folder: Path, servers: int, seconds: float, callers: int) -> Commits:
    address = url or f"sqlite:///{folder / 'records.db'}"
    stores = [Records.open(address, folder) for _ in range(servers)]
    ends = time.perf_counter() + seconds
    counts = await asyncio.gather(
        *(_write(store, ends) for store in stores for _ in range(callers))
    )
    for store in stores:
        await store.close()
    return Commits(servers, sum(counts) / seconds)


async def _write(store: Records, ends: float) -> int:
    count = 0
    while time.perf_counter() < ends:
        record = Record(
            id=uuid.uuid4().hex,
            kind="predict",
            status="starting",
            created_at=datetime.now(UTC),
            input="x" * 500,
        )
        await store.save_durably(record)
        await store.save_durably(
            msgspec.structs.replace(record, status="succeeded", output="y" * 500)
        )
        count += 1
    return count
