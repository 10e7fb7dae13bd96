"""Reads on separate threads, so that neither the event loop nor the writer waits."""

import asyncio
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Connection, Engine, or_, select
from sqlalchemy.exc import SQLAlchemyError

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.blobs import Blobs
from cog_adapt.server.records.record import Delivery, Record
from cog_adapt.server.records.retention import find_used
from cog_adapt.server.records.rows import to_delivery, to_record
from cog_adapt.server.records.space import SpaceUse, measure
from cog_adapt.server.records.tables import KEY, deliveries, records
from cog_adapt.server.records.transactions import to_storage_error

THREADS: Final = 2
# no attempt is planned later, unless the clock was set back
_LATEST_ATTEMPT: Final = timedelta(minutes=5)
T = TypeVar("T")


class Reader:
    """Reads committed rows. Every method raises `StorageError` if the database fails."""

    def __init__(self, engine: Engine, blobs: Blobs) -> None:
        self._engine = engine
        self._blobs = blobs
        self._threads = ThreadPoolExecutor(THREADS, "records-reader")

    async def run(self, function: Callable[[Connection], T]) -> T:
        """Call a function with a connection."""
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, self._connect, function
        )

    async def find_record(self, record_id: str, kind: Kind, owner: str = "") -> Record | None:
        """Return a record with its large texts, or None."""
        if "\0" in record_id:  # no text in PostgreSQL can contain it
            return None
        key = zip(KEY, (kind, record_id, owner), strict=True)
        query = select(records).where(*(column == value for column, value in key))

        def find(connection: Connection) -> Record | None:
            row = connection.execute(query).mappings().first()
            return None if row is None else to_record(row, self._blobs)

        return await self.run(find)

    async def find_owners(self, record_id: str, kind: Kind) -> list[str]:
        """Return all owners of a record with this id."""
        if "\0" in record_id:
            return []
        query = select(records.c.owner).where(records.c.kind == kind, records.c.id == record_id)
        return await self.run(lambda connection: list(connection.scalars(query)))

    async def find_deliveries(self, *conditions: ColumnElement[bool]) -> list[Delivery]:
        """Return the deliveries that meet all conditions, oldest first."""
        query = (
            select(deliveries).where(*conditions).order_by(deliveries.c.created_at, deliveries.c.id)
        )

        def find(connection: Connection) -> list[Delivery]:
            rows = connection.execute(query).mappings()
            return [to_delivery(row, self._blobs) for row in rows]

        return await self.run(find)

    async def find_due(
        self, server: str, now: datetime, limit: int, but_owners: Collection[str] = ()
    ) -> list[str]:
        """Return the ids of a server's pending deliveries that are due, oldest first."""
        query = (
            select(deliveries.c.id)
            .where(
                deliveries.c.state == "pending",
                or_(
                    deliveries.c.next_attempt_at <= now,
                    deliveries.c.next_attempt_at > now + _LATEST_ATTEMPT,
                ),
                deliveries.c.server == server,
                deliveries.c.owner.not_in(but_owners),
            )
            .order_by(deliveries.c.created_at, deliveries.c.id)
            .limit(limit)
        )
        return await self.run(lambda connection: list(connection.scalars(query)))

    async def restore(self, rows: list[dict[str, Any]]) -> list[Record]:
        """Convert rows to records, with their large texts."""
        return await self.run(lambda _: [to_record(row, self._blobs) for row in rows])

    async def sweep(self, min_age: float) -> int:
        """Remove the files that no row names."""
        return await self.run(
            lambda connection: self._blobs.sweep(
                lambda names: find_used(connection, names), min_age
            )
        )

    async def measure(self) -> SpaceUse:
        """Measure all rows and files."""
        return await self.run(lambda connection: measure(connection, self._blobs.size))

    async def size_unless_used(self, names: set[str]) -> int:
        """Return the bytes of those files that no row names."""
        listed = sorted(names)
        return await self.run(
            lambda connection: self._blobs.size(names - find_used(connection, listed))
        )

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def _connect(self, function: Callable[[Connection], T]) -> T:
        try:
            with self._engine.connect() as connection:
                return function(connection)
        except (SQLAlchemyError, OSError) as error:
            raise to_storage_error(error) from error
