"""An owner's share: of bytes, counted here, with the entry that goes first; and of turns.

This module knows neither what the bytes are of nor where they lie, and takes no lock.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

_FEWEST_TO_SHARE = 8
N = TypeVar("N")
L = TypeVar("L", int, float)


def turns_of_one(most: int) -> int:
    """Return how many of these turns one owner may hold: of eight or more, three quarters."""
    return most - most // 4 if most >= _FEWEST_TO_SHARE else most


class OwnerShares(Generic[L]):
    """The bytes of each owner beside the limits: of all, and of one.

    Args:
        most: bytes of all.
        most_of_owner: bytes of one owner.
        most_of_nobody: bytes of the owner ""; None: those of an owner.

    Attributes:
        most: bytes of all.
        bytes: of all now; any thread may read them.
    """

    def __init__(self, most: L, most_of_owner: L, most_of_nobody: L | None = None) -> None:
        self._bytes_of: dict[str, int] = {}
        self.bytes = 0
        self.limit(most, most_of_owner, most_of_nobody)

    def limit(self, most: L, most_of_owner: L, most_of_nobody: L | None = None) -> None:
        """Set other limits; what is counted stays."""
        self.most: L = most
        self._most_of_owner: L = min(most, most_of_owner)
        self._most_of_nobody: L = self._most_of_owner if most_of_nobody is None else most_of_nobody

    @property
    def most_of_owner(self) -> L:
        """The bytes that one owner with a name may have."""
        return self._most_of_owner

    @property
    def largest(self) -> int:
        """The bytes of the owner who has most; "" does not count."""
        return max(self.named().values(), default=0)

    def named(self) -> dict[str, int]:
        """Return the bytes of each owner that has any; "" is left out."""
        return {owner: size for owner, size in self._bytes_of.copy().items() if owner}

    def bytes_of(self, owner: str) -> int:
        """Return the bytes of an owner."""
        return self._bytes_of.get(owner, 0)

    def most_of(self, owner: str) -> L:
        """Return the bytes that an owner may have."""
        return self._most_of_owner if owner else self._most_of_nobody

    def lacking(self, owner: str, size: int) -> L:
        """Return by how many bytes an owner would exceed its share with so many more; else 0."""
        return max(0, self._bytes_of.get(owner, 0) + size - self.most_of(owner))

    def fits(self, owner: str, size: int) -> bool:
        """Return whether so many bytes more have room, in all and of an owner."""
        return self.bytes + size <= self.most and not self.lacking(owner, size)

    def count(self, owner: str, size: int) -> None:
        """Count so many bytes more of an owner; fewer, where the number is negative."""
        self.bytes += size
        left = self._bytes_of.get(owner, 0) + size
        if left:
            self._bytes_of[owner] = left
        else:
            self._bytes_of.pop(owner, None)

    def reset(self, sizes: Mapping[str, int]) -> None:
        """Count these bytes of these owners, and no others."""
        self._bytes_of = {owner: size for owner, size in sizes.items() if size}
        self.bytes = sum(sizes.values())


class OwnerBytes(OwnerShares[int], Generic[N]):
    """The bytes of each entry, an owner and a name; the first entry is the longest unused one.

    The entries' sizes are counted as `OwnerShares` counts, by `add` and `discard` alone.
    """

    def __init__(self, most: int, most_of_owner: int, most_of_nobody: int | None = None) -> None:
        super().__init__(most, most_of_owner, most_of_nobody)
        self._sizes: OrderedDict[tuple[str, N], int] = OrderedDict()
        self._names_of: dict[str, OrderedDict[N, None]] = {}  # the names in the order of `_sizes`

    def __len__(self) -> int:
        """Count the entries."""
        return len(self._sizes)

    def __contains__(self, key: tuple[str, N]) -> bool:
        """Return whether an entry is counted."""
        return key in self._sizes

    def __iter__(self) -> Iterator[tuple[str, N]]:
        """Yield the entries, the longest unused first."""
        return iter(self._sizes)

    def size_of(self, key: tuple[str, N]) -> int:
        """Return the bytes of an entry; 0 for an unknown entry."""
        return self._sizes.get(key, 0)

    def keys_of(self, owner: str) -> list[tuple[str, N]]:
        """Return an owner's entries, the longest unused first."""
        return [(owner, name) for name in self._names_of.get(owner, ())]

    def count_of(self, owner: str) -> int:
        """Count an owner's entries."""
        return len(self._names_of.get(owner, ()))

    def add(self, key: tuple[str, N], size: int) -> None:
        """Count an entry as the last one used; it replaces an entry of the same name."""
        self.discard(key)
        owner, name = key
        self._sizes[key] = size
        self._names_of.setdefault(owner, OrderedDict())[name] = None
        self.count(owner, size)

    def use(self, key: tuple[str, N]) -> None:
        """Mark an entry as the last one used.

        Raises:
            KeyError: it is not counted.
        """
        self._sizes.move_to_end(key)
        self._names_of[key[0]].move_to_end(key[1])

    def discard(self, key: tuple[str, N]) -> None:
        """Stop counting an entry, if it is counted."""
        size = self._sizes.pop(key, None)
        if size is None:
            return
        owner, name = key
        self.count(owner, -size)
        del self._names_of[owner][name]
        if not self._names_of[owner]:
            del self._names_of[owner]

    def drop_excess(self, owner: str) -> Iterator[tuple[str, N]]:
        """Discard and yield entries: this owner's above its share, then any above the total."""
        while self.lacking(owner, 0):
            yield self._dropped((owner, next(iter(self._names_of[owner]))))
        while self.bytes > self.most:
            yield self._dropped(next(iter(self._sizes)))

    def _dropped(self, key: tuple[str, N]) -> tuple[str, N]:
        self.discard(key)
        return key
