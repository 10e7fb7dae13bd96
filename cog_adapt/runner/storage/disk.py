"""Which adapters lie on disk, by bytes, and which have to make room.

This module reads no files and takes no lock.
"""

from collections.abc import Iterable, Iterator

from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.index import Index, Key
from cog_adapt.runner.storage.memory import Counts
from cog_adapt.runner.storage.metadata import Metadata


class Disk:
    """The bytes on disk, by place.

    Args:
        most: bytes of all.
        most_of_owner: bytes of the adapters of one place.
    """

    def __init__(self, most: int, most_of_owner: int) -> None:
        self._most = most
        self._most_of_owner = min(most, most_of_owner)
        self._sizes: dict[Key, int] = {}
        self._bytes_of: dict[str, int] = {}
        self.bytes = 0
        self.counts = Counts()

    def __len__(self) -> int:
        """Count the adapters."""
        return len(self._sizes)

    def __contains__(self, key: Key) -> bool:
        """Return whether the adapter's tensors are on disk."""
        return key in self._sizes

    def add(self, key: Key, size: int) -> None:
        """Count an adapter."""
        self.discard(key)
        self._sizes[key] = size
        self._bytes_of[key[0]] = self._bytes_of.get(key[0], 0) + size
        self.bytes += size

    def discard(self, key: Key) -> None:
        """Count an adapter no more."""
        size = self._sizes.pop(key, 0)
        self._bytes_of[key[0]] = self._bytes_of.get(key[0], 0) - size
        self.bytes -= size

    def make_room(self, key: Key, size: int, index: Index) -> list[Key]:
        """Choose the adapters that go for another: unpinned, unnamed, the longest unused first.

        Raises:
            StoreError: there is no room for it.
        """
        if size > self._most_of_owner:
            raise StoreError(
                f"adapter {key[1]} has {size:,} bytes; an owner's adapters may have "
                f"{self._most_of_owner:,} on disk. Use a smaller rank or another method, or set "
                "ADAPTER_OWNER_DISK_BYTES and ADAPTER_DISK_BYTES higher."
            )
        too_many = self._bytes_of.get(key[0], 0) + size - self._most_of_owner
        own = self._chosen(index.items(key[0]), too_many)
        freed = sum(self._sizes[each] for each in own)
        others = (pair for pair in index.items() if pair[0] not in own)
        return own + self._chosen(others, self.bytes + size - freed - self._most)

    def _chosen(self, items: Iterable[tuple[Key, Metadata]], missing: int) -> list[Key]:
        if missing <= 0:
            return []
        loose = [pair for pair in items if pair[0] in self._sizes and not pair[1].is_kept]
        oldest = [key for key, _ in sorted(loose, key=lambda pair: pair[1].used_at)]
        chosen = [*_until(missing, oldest, self._sizes)]
        if sum(self._sizes[key] for key in chosen) < missing:
            raise StoreError(
                f"the disk's budget for adapters ({self._most:,} bytes, {self._most_of_owner:,} an "
                "owner) is full of pinned and named ones. Remove some, or take pins off."
            )
        return chosen


def _until(missing: int, keys: Iterable[Key], sizes: dict[Key, int]) -> Iterator[Key]:
    """Yield keys until their sizes make up what is missing."""
    for key in keys:
        if missing <= 0:
            return
        missing -= sizes[key]
        yield key
