"""The adapters on disk by bytes, and the choice of those that make room.

This module reads no files and takes no lock.
"""

from collections.abc import Callable, Iterable, Iterator

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.owner_bytes import OwnerBytes
from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.index import Index, Key
from cog_adapt.runner.storage.memory import Counts


class Disk:
    """The bytes of adapters on disk, by the folder of each owner.

    Args:
        most: bytes of all.
        most_of_owner: bytes of the adapters of one place.
    """

    def __init__(self, most: int, most_of_owner: int) -> None:
        self._by_owner: OwnerBytes[str] = OwnerBytes(most, most_of_owner)
        self.counts = Counts()

    @property
    def bytes(self) -> int:
        """The bytes of all adapters on disk."""
        return self._by_owner.bytes

    def __len__(self) -> int:
        """Count the adapters."""
        return len(self._by_owner)

    def __contains__(self, key: Key) -> bool:
        """Return whether the adapter's tensors are on disk."""
        return key in self._by_owner

    def add(self, key: Key, size: int) -> None:
        """Count an adapter."""
        self._by_owner.add(key, size)

    def discard(self, key: Key) -> None:
        """Stop counting an adapter."""
        self._by_owner.discard(key)

    def make_room(self, key: Key, size: int, index: Index) -> list[Key]:
        """Choose the adapters to remove for a new one: unpinned, unnamed, the longest unused first.

        Raises:
            StoreError: there is no room for it.
        """
        by_owner, place = self._by_owner, key[0]
        if size > by_owner.most_of(place):
            raise StoreError(
                f"adapter {key[1]} has {size:,} bytes; an owner's adapters may have "
                f"{by_owner.most_of(place):,} on disk. Use a smaller rank or another method, or "
                "set ADAPTER_OWNER_DISK_BYTES and ADAPTER_DISK_BYTES higher."
            )
        own = self._chosen(index.items(place), by_owner.lacking(place, size))
        freed = sum(map(by_owner.size_of, own))
        others = (pair for pair in index.items() if pair[0] not in own)
        return own + self._chosen(others, by_owner.bytes + size - freed - by_owner.most)

    def _chosen(self, items: Iterable[tuple[Key, AdapterMetadata]], missing: int) -> list[Key]:
        if missing <= 0:
            return []
        loose = [pair for pair in items if pair[0] in self._by_owner and not pair[1].is_kept]
        oldest = [key for key, _ in sorted(loose, key=lambda pair: pair[1].used_at)]
        chosen = [*_until(missing, oldest, self._by_owner.size_of)]
        if sum(map(self._by_owner.size_of, chosen)) < missing:
            most, most_of_owner = self._by_owner.most, self._by_owner.most_of("")
            raise StoreError(
                f"the disk's budget for adapters ({most:,} bytes, {most_of_owner:,} an owner) "
                "is full of pinned and named ones. Remove some, or unpin some."
            )
        return chosen


def _until(missing: int, keys: Iterable[Key], size_of: Callable[[Key], int]) -> Iterator[Key]:
    """Yield keys until their sizes cover the missing bytes."""
    for key in keys:
        if missing <= 0:
            return
        missing -= size_of(key)
        yield key
