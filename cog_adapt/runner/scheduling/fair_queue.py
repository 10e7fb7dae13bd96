"""Start-time fair queueing (Goyal, Vin and Cheng 1996): owners share the model by virtual time.

Each owner has a row of items, and pays for the seconds that its items took. The next item belongs
to the owner that has paid least; an owner that comes back after a pause has saved nothing. This
module knows no thread and no work.
"""

from collections import deque
from collections.abc import Iterator
from itertools import zip_longest
from typing import Generic, TypeVar

T = TypeVar("T")
# accounts of owners without waiting work: beyond this number, accounts that owe nothing are dropped
_MOST_ACCOUNTS = 1_000


class VirtualTime:
    """The virtual time that each owner has paid; several queues may share one.

    Attributes:
        now: the virtual start of the item that was taken last.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self._paid: dict[str, float] = {}

    def paid(self, owner: str) -> float:
        """Return the virtual time up to which an owner has had its share."""
        return self._paid.get(owner, 0.0)

    def charge(self, owner: str, seconds: float) -> None:
        """Charge an owner for seconds of the model's time."""
        self._paid[owner] = max(self.now, self.paid(owner)) + seconds
        if len(self._paid) > _MOST_ACCOUNTS:
            self._paid = {name: paid for name, paid in self._paid.items() if paid > self.now}


class _Row(Generic[T]):
    """One owner's items, and the virtual time at which the first of them came."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.items: deque[T] = deque()


class FairQueue(Generic[T]):
    """Items by owner; `pop` takes the oldest item of the owner that has paid least."""

    def __init__(self, time: VirtualTime) -> None:
        self._time = time
        self._rows: dict[str, _Row[T]] = {}

    def append(self, owner: str, item: T) -> None:
        """Add an item at the end of its owner's row."""
        self._rows.setdefault(owner, _Row(self._time.now)).items.append(item)

    def pop(self) -> T:
        """Take an item; among owners with equal payments, the item that waits longest."""
        owner = min(self._rows, key=self._starts)
        self._time.now = max(self._time.now, self._starts(owner))
        # with more items, the owner's row is put back behind the others
        row = self._rows.pop(owner)
        item = row.items.popleft()
        if row.items:
            self._rows[owner] = row
        return item

    def remove(self, owner: str, item: T) -> None:
        """Remove a certain item."""
        row = self._rows[owner]
        row.items.remove(item)
        if not row.items:
            del self._rows[owner]

    def clear(self) -> None:
        """Forget all items."""
        self._rows.clear()

    def __iter__(self) -> Iterator[T]:
        """Yield the items, one of each owner in turn, the owner that has paid least first."""
        rows = [[*self._rows[owner].items] for owner in sorted(self._rows, key=self._starts)]
        for turn in zip_longest(*rows, fillvalue=None):
            yield from (item for item in turn if item is not None)

    def __len__(self) -> int:
        """Count the items."""
        return sum(len(row.items) for row in self._rows.values())

    def _starts(self, owner: str) -> float:
        return max(self._rows[owner].began, self._time.paid(owner))
