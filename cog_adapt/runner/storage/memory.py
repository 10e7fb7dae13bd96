"""Adapters in memory, by bytes; the longest unused goes first.

This module reads no files and takes no lock.
"""

from collections import OrderedDict
from dataclasses import dataclass

from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.storage.index import Key


@dataclass
class Counts:
    """How often a tier had what was asked for."""

    hits: int = 0
    misses: int = 0


class Memory:
    """The adapters that need no reading.

    Args:
        most: bytes of all.
        most_of_owner: bytes of the adapters of one place.
    """

    def __init__(self, most: int, most_of_owner: int) -> None:
        self._most = most
        self._most_of_owner = min(most, most_of_owner)
        self._places: dict[str, OrderedDict[str, Adapter]] = {}
        self._order: OrderedDict[Key, int] = OrderedDict()
        self._bytes_of: dict[str, int] = {}
        self.bytes = 0
        self.counts = Counts()

    def __len__(self) -> int:
        """Count the adapters."""
        return len(self._order)

    def get(self, key: Key) -> Adapter | None:
        """Return an adapter; None where it is not in memory."""
        if key not in self._order:
            self.counts.misses += 1
            return None
        self.counts.hits += 1
        self._order.move_to_end(key)
        self._places[key[0]].move_to_end(key[1])
        return self._places[key[0]][key[1]]

    def put(self, key: Key, adapter: Adapter) -> bool:
        """Keep an adapter, and let others go; False where it is too big to be kept at all."""
        size = adapter.nbytes
        if size > self._most_of_owner:
            return False
        self.drop(key)
        place = self._places.setdefault(key[0], OrderedDict())
        place[key[1]] = adapter
        self._order[key] = size
        self._bytes_of[key[0]] = self._bytes_of.get(key[0], 0) + size
        self.bytes += size
        while self._bytes_of[key[0]] > self._most_of_owner:
            self.drop((key[0], next(iter(place))))
        while self.bytes > self._most:
            self.drop(next(iter(self._order)))
        return True

    def drop(self, key: Key) -> None:
        """Let an adapter go."""
        size = self._order.pop(key, None)
        if size is None:
            return
        place = key[0]
        del self._places[place][key[1]]
        self.bytes -= size
        self._bytes_of[place] -= size
        if not self._places[place]:
            del self._places[place], self._bytes_of[place]
