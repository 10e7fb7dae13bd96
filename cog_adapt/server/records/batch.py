"""The changes to be written in one transaction."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from sqlalchemy import Connection

from cog_adapt.server.records.record import Delivery, Record

Key = tuple[str, str, str]
"""Kind, id and owner of a record."""


class Changes:
    """The last state of each record and delivery."""

    __slots__ = ("deliveries", "records")

    def __init__(self) -> None:
        self.records: dict[Key, Record] = {}
        self.deliveries: dict[str, Delivery] = {}

    def add(self, record: Record | None, deliveries: Iterable[Delivery]) -> None:
        """Add a record and deliveries; a later state replaces an earlier one."""
        if record is not None:
            self.records[record.key] = record
        for delivery in deliveries:
            self.deliveries[delivery.id] = delivery

    def forget(self, record: Record | None, deliveries: Iterable[Delivery]) -> None:
        """Drop earlier states of these items."""
        if record is not None:
            self.records.pop(record.key, None)
        for delivery in deliveries:
            self.deliveries.pop(delivery.id, None)

    def restore(self, older: "Changes", limit: int) -> int:
        """Put back changes that could not be written, unless newer ones have come.

        Returns:
            the number of the oldest changes that were dropped to stay within the limit.
        """
        self.records = older.records | self.records
        self.deliveries = older.deliveries | self.deliveries
        return _trim(self.records, limit) + _trim(self.deliveries, limit)

    def split(self) -> "Iterator[tuple[Key, Changes]]":
        """Yield each record, and then each delivery, by itself."""
        for key, record in self.records.items():
            single = Changes()
            single.add(record, ())
            yield key, single
        for delivery in self.deliveries.values():
            single = Changes()
            single.add(None, (delivery,))
            yield delivery.key_of_record, single

    def __len__(self) -> int:
        return len(self.records) + len(self.deliveries)


def _trim(changes: dict[Any, Any], limit: int) -> int:
    oldest = list(changes)[: max(0, len(changes) - limit)]
    for key in oldest:
        del changes[key]
    return len(oldest)


class Waiter(NamedTuple):
    """A caller that waits for the commit of one change, or of all changes if `key` is None."""

    future: "asyncio.Future[None]"
    key: Key | None


class Call(NamedTuple):
    """A function to run in a transaction of its own, after the changes."""

    future: "asyncio.Future[Any]"
    function: Callable[[Connection], Any]


class Batch:
    """Changes in the order of their arrival, divided by what a failed commit does to the changes.

    The changes in `behind` are kept until the database has them. The changes in `durable` are
    dropped after a failure, because their callers get the error and refuse the requests.
    """

    __slots__ = ("behind", "calls", "durable", "waiters")

    def __init__(self) -> None:
        self.behind = Changes()
        self.durable = Changes()
        self.waiters: list[Waiter] = []
        self.calls: list[Call] = []

    def find(self, key: Key) -> Record | None:
        """Return the newest state of a record in this batch, or None."""
        return self.durable.records.get(key) or self.behind.records.get(key)

    def merge(self) -> Changes:
        """Return all changes together."""
        changes = Changes()
        changes.records = self.behind.records | self.durable.records
        changes.deliveries = self.behind.deliveries | self.durable.deliveries
        return changes
