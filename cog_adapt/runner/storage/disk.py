"""The adapters on disk by bytes, and the choice of those that make room.

This module reads no files and takes no lock.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping

from cog_adapt.adapter_metadata import AdapterMetadata
from cog_adapt.owner_bytes import OwnerBytes
from cog_adapt.runner.errors import StoreError
from cog_adapt.runner.storage.index import Index, Key
from cog_adapt.runner.storage.memory import Counts

Written = Callable[[Key], AdapterMetadata | None]
"""Reads an adapter's metadata as any process has last written it; None if there is none."""


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

    def note_place(self, place: str, sizes: Mapping[str, int]) -> None:
        """Count these adapters of a place, by id, and none besides."""
        for key in self._by_owner.keys_of(place):
            if key[1] not in sizes:
                self._by_owner.discard(key)
        for adapter_id, size in sizes.items():
            if self._by_owner.size_of((place, adapter_id)) != size:
                self._by_owner.add((place, adapter_id), size)

    def make_room(self, key: Key, size: int, index: Index, written: Written) -> list[Key]:
        """Choose the adapters to remove for a new one: unpinned, unnamed, the longest unused first.

        Args:
            key: of the new adapter.
            size: its bytes.
            index: what this process knows of the adapters.
            written: asked for the chosen ones, which another process may have used or pinned.

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
        choice = _Choice(by_owner.size_of, index, written)
        own = choice.of(by_owner.keys_of(place), by_owner.lacking(place, size))
        freed = sum(map(by_owner.size_of, own))
        missing = by_owner.bytes + size - freed - by_owner.most
        rest = (each for each in by_owner if each not in own) if missing > 0 else ()
        chosen = own + choice.of(rest, missing)
        if choice.is_short:
            raise StoreError(
                f"the disk's budget for adapters ({by_owner.most:,} bytes, "
                f"{by_owner.most_of(''):,} an owner) is full of pinned and named ones. Remove "
                "some, or unpin some."
            )
        return chosen


class _Choice:
    """The choice of the longest unused adapters that nobody keeps.

    Attributes:
        is_short: whether the adapters have fewer bytes than were wanted.
    """

    def __init__(self, size_of: Callable[[Key], int], index: Index, written: Written) -> None:
        self._size_of = size_of
        self._index = index
        self._written = written
        self.is_short = False

    def of(self, keys: Iterable[Key], missing: int) -> list[Key]:
        """Return adapters of at least so many bytes."""
        if missing <= 0:
            return []
        oldest = [(known.used_at, key) for key in keys if (known := self._loose(key))]
        heapq.heapify(oldest)
        chosen: list[Key] = []
        while missing > 0 and oldest:
            used_at, key = heapq.heappop(oldest)
            now = self._written(key)
            if now is None or now.is_kept:
                continue
            if now.used_at > used_at:
                heapq.heappush(oldest, (now.used_at, key))
                continue
            chosen.append(key)
            missing -= self._size_of(key)
        self.is_short = self.is_short or missing > 0
        return chosen

    def _loose(self, key: Key) -> AdapterMetadata | None:
        known = self._index.get(key) or self._written(key)
        return None if known is None or known.is_kept else known
