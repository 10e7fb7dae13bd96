"""Adapters in memory, bounded in bytes (LRU).

This module reads no files and takes no lock.
"""

from dataclasses import dataclass

from cog_adapt.owner_bytes import OwnerBytes
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.index import Key


@dataclass
class Counts:
    """The hits and misses of one tier."""

    hits: int = 0
    misses: int = 0


class Memory:
    """The adapters in memory.

    Args:
        most: bytes of all.
        most_of_owner: bytes of the adapters of one place.
    """

    def __init__(self, most: int, most_of_owner: int) -> None:
        self._by_owner: OwnerBytes[str] = OwnerBytes(most, most_of_owner)
        self._adapters: dict[Key, Adapter] = {}
        self.counts = Counts()

    @property
    def bytes(self) -> int:
        """The bytes of all adapters in memory."""
        return self._by_owner.bytes

    def __len__(self) -> int:
        """Count the adapters."""
        return len(self._adapters)

    def get(self, key: Key) -> Adapter | None:
        """Return an adapter, or None."""
        if key not in self._adapters:
            self.counts.misses += 1
            return None
        self.counts.hits += 1
        self._by_owner.use(key)
        return self._adapters[key]

    def put(self, key: Key, adapter: Adapter) -> bool:
        """Store an adapter and evict others; False if it is too large to be stored."""
        place = key[0]
        if adapter.nbytes > self._by_owner.most_of(place):
            return False
        self._adapters[key] = adapter
        self._by_owner.add(key, adapter.nbytes)
        for gone in self._by_owner.drop_excess(place):
            del self._adapters[gone]
        return True

    def drop(self, key: Key) -> None:
        """Remove an adapter."""
        self._adapters.pop(key, None)
        self._by_owner.discard(key)
