"""Measures adapters of many owners in a small memory: hit rates, lookups, puts, a restart.

Every owner has some adapters of the packaged model's shapes (LoRA of rank 1 on queries and values,
and a head). Lookups go to owners and adapters uniformly, or by Zipf's law as callers do; what
an adapter that memory lacks comes from the disk, which checks its digest.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from bench.report import Columns, Report, Spread, arguments, milliseconds
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.budgets import StorageBudgets
from cog_adapt.runner.storage.store import AdapterStore
from gradient_check.phases.precision import Precision
from gradient_check.phases.randomness import generator

WIDTH, LAYERS, LABELS = 384, 6, ("billing", "delivery")
BASE = "0" * 16
NO_LIMIT = 2**60

Choose = Callable[[random.Random], tuple[str, int]]
"""Draws an owner, and one of its adapters."""


@dataclass(frozen=True)
class Sizes:
    """The numbers of owners, adapters and calls."""

    owners: int = 1000
    adapters: int = 20
    lookups: int = 50_000
    memory_bytes: int = 200_000_000


QUICK = Sizes(owners=20, adapters=3, lookups=500, memory_bytes=1_000_000)


def share(part: float) -> str:
    """Format a share."""
    return f"{part:.1%}"


def short(milliseconds: float) -> str:
    """Format a time in milliseconds."""
    return f"{milliseconds:.3f}"


COLUMNS: Columns = {
    "what": str,
    "calls": str,
    "in memory": share,
    "ms": milliseconds,
    "p99 ms": short,
    "p99 ms from disk": short,
}


def adapter_of(owner: int, number: int) -> Adapter:
    """Draw an adapter of the packaged model's shapes."""
    draw = generator(0, "adapter", owner, number)
    tensors: dict[str, Tensor] = {"head.bias": torch.zeros(len(LABELS))}
    tensors["head.weight"] = torch.randn(len(LABELS), WIDTH, generator=draw)
    for layer, part in product(range(LAYERS), ("query", "value")):
        path = f"encoder.encoder.layer.{layer}.attention.self.{part}"
        tensors[f"{path}.lora_a"] = torch.randn(1, WIDTH, generator=draw)
        tensors[f"{path}.lora_b"] = torch.randn(WIDTH, 1, generator=draw)
    return Adapter(tensors, LABELS, "lora", BASE)


def fill(store: AdapterStore, sizes: Sizes) -> tuple[dict[str, list[str]], list[float]]:
    """Store every owner's adapters, and name them; return the ids by owner, and the seconds."""
    ids: dict[str, list[str]] = {}
    times = []
    for owner, number in product(range(sizes.owners), range(sizes.adapters)):
        name, adapter = f"owner-{owner}", adapter_of(owner, number)
        begun = time.perf_counter()
        store.put(adapter, name)
        times.append(time.perf_counter() - begun)
        ids.setdefault(name, []).append(adapter.id)
    return ids, times


def zipf(count: int) -> list[float]:
    """Return running weights by Zipf's law."""
    return [*accumulate(1 / rank for rank in range(1, count + 1))]


def choices(sizes: Sizes) -> Mapping[str, Choose]:
    """Return the ways to draw an owner and one of its adapters."""
    owners, adapters = range(sizes.owners), range(sizes.adapters)
    by_owner, by_adapter = zipf(sizes.owners), zipf(sizes.adapters)

    def drawn(draw: random.Random) -> tuple[str, int]:
        (owner,) = draw.choices(owners, cum_weights=by_owner)
        (number,) = draw.choices(adapters, cum_weights=by_adapter)
        return f"owner-{owner}", number

    return {
        "uniform": lambda draw: (f"owner-{draw.choice(owners)}", draw.choice(adapters)),
        "Zipf": drawn,
    }


def look_up(
    store: AdapterStore, ids: Mapping[str, Sequence[str]], choose: Choose, count: int
) -> Iterator[tuple[bool, float]]:
    """Look adapters up; yield whether each was in memory, and its seconds."""
    draw = random.Random(0)
    for _ in range(count):
        owner, number = choose(draw)
        hits = store.gauges()["adapters_memory_hits"]
        begun = time.perf_counter()
        store.get(ids[owner][number], owner)
        seconds = time.perf_counter() - begun
        yield store.gauges()["adapters_memory_hits"] > hits, seconds


def row(what: str, times: Sequence[float], **more: Any) -> dict[str, Any]:  # noqa: ANN401
    """Make a row of seconds."""
    milliseconds = [1000 * each for each in times]
    return {
        "what": what,
        "calls": len(times),
        "ms": Spread.of(milliseconds),
        "p99 ms": p99(milliseconds),
        **more,
    }


def p99(values: Sequence[float]) -> float | None:
    """Return the value that 99 of 100 do not exceed; None without values."""
    return sorted(values)[int(0.99 * (len(values) - 1))] if values else None


def lookup_row(what: str, found: Sequence[tuple[bool, float]]) -> dict[str, Any]:
    """Make a row of lookups, without those before memory was warm."""
    warm = found[len(found) // 5 :]
    slow = [1000 * seconds for is_hit, seconds in warm if not is_hit]
    hits = sum(is_hit for is_hit, _ in warm) / len(warm)
    times = [seconds for _, seconds in warm]
    return row(f"lookup, {what}", times, **{"in memory": hits, "p99 ms from disk": p99(slow)})


def measure(sizes: Sizes, folder: Path) -> Report:
    """Fill a store, look adapters up, and start it again."""
    budgets = StorageBudgets(sizes.memory_bytes, sizes.memory_bytes // 2, NO_LIMIT, NO_LIMIT)
    store = AdapterStore(folder, budgets)
    ids, puts = fill(store, sizes)
    rows = [row("put", puts)]
    for what, choose in choices(sizes).items():
        rows.append(lookup_row(what, [*look_up(store, ids, choose, sizes.lookups)]))
    names = {owner: [f"model@v{n + 1}" for n in range(len(own))] for owner, own in ids.items()}
    for owner, adapter_id in ((owner, each) for owner, own in ids.items() for each in own):
        store.change(
            adapter_id,
            owner,
            lambda known, next_version: replace(known, name="model", version=next_version("model")),
        )
    by_name = look_up(store, names, choices(sizes)["Zipf"], sizes.lookups)
    rows.append(lookup_row("Zipf, by name", [*by_name]))
    held = store.gauges()
    store.close()
    begun = time.perf_counter()
    AdapterStore(folder, budgets)
    rows.append(row("restart", [time.perf_counter() - begun]))
    return Report("Adapters of many owners", COLUMNS, rows, facts(sizes, held))


def facts(sizes: Sizes, held: Mapping[str, float]) -> dict[str, Any]:
    """Return the facts about the rows."""
    return {
        "owners": sizes.owners,
        "adapters an owner": sizes.adapters,
        "bytes an adapter": adapter_of(0, 0).nbytes,
        "memory budget": sizes.memory_bytes,
        "bytes in memory": int(held["adapters_memory_bytes"]),
        "bytes on disk": int(held["adapters_disk_bytes"]),
    }


def main() -> None:
    """Measure adapters of many owners in a small memory."""
    chosen = arguments(main.__doc__)
    with tempfile.TemporaryDirectory() as folder:  # of TMPDIR: in /dev/shm puts wait for no disk
        report = measure(QUICK if chosen.quick else Sizes(), Path(folder))
    report.publish(Precision(torch.device("cpu")), chosen.output)


if __name__ == "__main__":
    main()
