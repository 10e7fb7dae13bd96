"""A cache of features, or encoded inputs, of recent examples, bounded in bytes (LRU).

An entry is found by its owner alone, and is removed with the adapter made from the example. This
module knows no model and no store.
"""

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from torch import Tensor

from cog_adapt.owner_bytes import OwnerBytes
from cog_adapt.shared_settings import share_of

Entry = Tensor | Mapping[str, Tensor]
"""One example's features, or its encoded batch of one row."""

ENTRY_BYTES, TENSOR_BYTES = 600, 512  # memory of an entry and a tensor, besides the values
_Key = tuple[str, str]


@dataclass
class _Kept:
    entry: Entry
    brought_by: set[str] = field(default_factory=set)


class FeatureCache:
    """A cache of values computed from examples, usable on any thread.

    Args:
        most_bytes: of all owners' entries.
        owner_share: of these bytes, for the entries of one owner.
    """

    def __init__(self, most_bytes: int, owner_share: float = 0.5) -> None:
        self._by_owner: OwnerBytes[str] = OwnerBytes(most_bytes, share_of(most_bytes, owner_share))
        self._kept: dict[_Key, _Kept] = {}
        self._lock = threading.Lock()
        self._left: deque[_Key] = deque()
        self.hits = self.misses = 0

    @property
    def bytes(self) -> int:
        """The bytes of all entries."""
        return self._by_owner.bytes

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._kept)

    def get(self, owner: str, digests: Iterable[str | None]) -> list[Entry | None]:
        """Return the entry of each digest, or None.

        Args:
            owner: the owner of the entries.
            digests: `input_digests`; a digest that is None has no entry.
        """
        with self._lock:
            return [self._found((owner, digest or "")) for digest in digests]

    def put(self, owner: str, digests: Sequence[str | None], entries: Sequence[Entry]) -> None:
        """Store an entry for each digest, and evict others; a too large entry is not stored."""
        with self._lock:
            self._drop_unbrought()
            for digest, entry in zip(digests, entries, strict=True):
                self._put((owner, digest or ""), entry)

    def bring(self, owner: str, digests: Iterable[str | None], name: str) -> None:
        """Attach entries to an adapter; they are removed with the last adapter that has them."""
        keys = [(owner, digest or "") for digest in digests]
        with self._lock:
            for key in filter(self._kept.__contains__, keys):
                self._kept[key].brought_by.add(name)

    def discard(self, owner: str, digests: Iterable[str | None]) -> None:
        """Drop the given entries that no adapter has: the run that computed them failed."""
        self._left.extend((owner, digest or "") for digest in digests)
        # without waiting: a garbage collection may call this while this thread holds the lock
        if self._lock.acquire(blocking=False):
            try:
                self._drop_unbrought()
            finally:
                self._lock.release()

    def forget(self, owner: str, name: str | None = None) -> None:
        """Drop the entries that this adapter alone has; None: all entries of the owner."""
        with self._lock:
            own = self._by_owner.keys_of(owner)
            for key in [key for key in own if name is None or self._is_last(key, name)]:
                self._drop(key)

    def gauges(self) -> dict[str, float]:
        """Return numbers for a server's metrics."""
        return {
            "feature_cache_bytes": float(self.bytes),
            "feature_cache_entries": float(len(self)),
            "feature_cache_hits": float(self.hits),
            "feature_cache_misses": float(self.misses),
        }

    def _found(self, key: _Key) -> Entry | None:
        kept = self._kept.get(key)
        if kept is None:
            self.misses += 1
            return None
        self.hits += 1
        self._by_owner.use(key)
        return kept.entry

    def _put(self, key: _Key, entry: Entry) -> None:
        owner, digest = key
        size = _size_of(entry)
        if size > self._by_owner.most_of(owner) or not digest:
            return
        before = self._kept.get(key)
        self._kept[key] = _Kept(entry, before.brought_by if before else set())
        self._by_owner.add(key, size)
        for gone in self._by_owner.drop_excess(owner):
            del self._kept[gone]

    def _is_last(self, key: _Key, name: str) -> bool:
        brought_by = self._kept[key].brought_by
        was_brought = name in brought_by
        brought_by.discard(name)
        return was_brought and not brought_by

    def _drop_unbrought(self) -> None:
        """Drop discarded entries, except those that an adapter has meanwhile."""
        while self._left:
            key = self._left.popleft()
            if key in self._kept and not self._kept[key].brought_by:
                self._drop(key)

    def _drop(self, key: _Key) -> None:
        del self._kept[key]
        self._by_owner.discard(key)


def _size_of(entry: Entry) -> int:
    tensors = [entry] if isinstance(entry, Tensor) else [*entry.values()]
    return ENTRY_BYTES + sum(tensor.nbytes + TENSOR_BYTES for tensor in tensors)
