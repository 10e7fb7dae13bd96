"""One server's tiers of adapters, all of one size: tiers count adapters, not bytes."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

Place = Literal["memory", "disk", "store"]


@dataclass(frozen=True)
class Budgets:
    """What one server keeps near.

    Attributes:
        device: adapters that are ready on the device.
        memory: adapters in memory.
        disk: adapters on disk.
    """

    device: int
    memory: int
    disk: int

    @classmethod
    def of_bytes(cls, size: int, *, served: int, device: int, memory: int, disk: int) -> "Budgets":
        """Count the adapters of `size` bytes that budgets of bytes hold; one is ready at least."""
        ready = max(1, min(served, device // size))
        return cls(device=ready, memory=memory // size, disk=disk // size)


class Cache:
    """The last adapters that were used, at most `limit`."""

    def __init__(self, limit: int, held: Iterable[int] = ()) -> None:
        self._limit = limit
        self._held: OrderedDict[int, None] = OrderedDict.fromkeys(held)

    def use(self, adapter: int) -> bool:
        """Mark an adapter as the last one used; return whether it was there."""
        if adapter in self._held:
            self._held.move_to_end(adapter)
            return True
        return False

    def add(self, adapter: int) -> int | None:
        """Add an adapter; return the one that leaves for it, which may be the same."""
        if not self._limit:
            return adapter
        self._held[adapter] = None
        return self._held.popitem(last=False)[0] if len(self._held) > self._limit else None

    def __contains__(self, adapter: int) -> bool:
        """Return whether an adapter is held; this counts as no use."""
        return adapter in self._held

    def __iter__(self) -> Iterator[int]:
        """Iterate over what is held, the longest unused first."""
        return iter(self._held)


@dataclass(frozen=True)
class Found:
    """Where a request found its adapter.

    Attributes:
        ready: whether it was ready on the device.
        place: the nearest tier that held its tensors.
        left: the adapter that left memory for it.
    """

    ready: bool
    place: Place
    left: int | None = None


class Tiers:
    """The tiers of one server; the store behind them holds every adapter.

    A request reads the tensors first, and then looks for the ready module: so memory is used by
    each request, also by those whose adapter is ready.
    """

    def __init__(self, budgets: Budgets, held: Iterable[int] = ()) -> None:
        held = [*held]
        self.device = Cache(budgets.device, held[-budgets.device :])
        self.memory = Cache(budgets.memory, held[-budgets.memory :] if budgets.memory else ())
        self.disk = Cache(budgets.disk, held[-budgets.disk :] if budgets.disk else ())

    def look_up(self, adapter: int) -> Found:
        """Find an adapter, and copy it to the nearer tiers."""
        place, left = self._read(adapter)
        ready = self.device.use(adapter)
        if not ready:
            self.device.add(adapter)
        return Found(ready, place, left)

    def _read(self, adapter: int) -> tuple[Place, int | None]:
        on_disk = self.disk.use(adapter)  # a use counts wherever it was read
        if self.memory.use(adapter):
            return "memory", None
        if not on_disk:
            self.disk.add(adapter)
        return ("disk" if on_disk else "store"), self.memory.add(adapter)
