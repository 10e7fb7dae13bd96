"""Queries of the records; the answers include everything saved before."""

from collections.abc import Collection, Sequence
from datetime import datetime

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.pages import to_query
from cog_adapt.server.records.reader import Reader
from cog_adapt.server.records.record import Delivery, Page, Record
from cog_adapt.server.records.tables import deliveries
from cog_adapt.server.records.writer import Writer


class RecordQueries:
    """Reads records and deliveries. Raises `StorageError` when the database cannot be used.

    Attributes:
        server: the id of this instance, which owns the records that it saves.
    """

    def __init__(self, server: str, writer: Writer, reader: Reader) -> None:
        self.server = server
        self._writer = writer
        self._reader = reader

    async def get(self, record_id: str, kind: Kind, owner: str = "") -> Record | None:
        """Return the newest state of an owner's record, committed or not."""
        waiting = self._writer.find((kind, record_id, owner))
        if waiting is not None:
            return waiting
        return await self._reader.find_record(record_id, kind, owner)

    async def owners_of(self, record_id: str, kind: Kind) -> list[str]:
        """Return all owners of a record with this id, for callers that may see all."""
        await self._writer.flush()
        return await self._reader.find_owners(record_id, kind)

    async def page(  # noqa: PLR0913 - the filters are parameters
        self,
        kind: Kind,
        statuses: Sequence[str] = (),
        cursor: str | None = None,
        limit: int = 100,
        owner: str | None = "",
        created: tuple[datetime | None, datetime | None] = (None, None),
    ) -> Page:
        """Return a page of an owner's records, newest first, with large texts as references.

        Args:
            kind: of the records.
            statuses: only these; empty: all.
            cursor: of the page before.
            limit: the most records.
            owner: of the records; None: all owners.
            created: only records from the first time on, and before the second.

        Raises:
            InputError: the cursor was not made here.
        """
        query = to_query(
            kind=kind,
            statuses=statuses,
            cursor=cursor,
            limit=limit,
            owner=owner,
            created=created,
        )
        await self._writer.flush()
        return await self._reader.run(query.read)

    async def due_deliveries(
        self,
        now: datetime,
        limit: int,
        but: Collection[str] = (),
        but_owners: Collection[str] = (),
    ) -> list[Delivery]:
        """Return this server's due deliveries, oldest first.

        Args:
            now: the time by which they are due.
            limit: the most deliveries.
            but: ids to leave out; their bodies are not read.
            but_owners: owners to leave out.
        """
        await self._writer.flush()
        ids = await self._reader.find_due(
            server=self.server, now=now, limit=limit + len(but), but_owners=but_owners
        )
        wanted = [each for each in ids if each not in but][:limit]
        return await self._reader.find_deliveries(deliveries.c.id.in_(wanted)) if wanted else []

    async def deliveries(self, record_id: str, kind: Kind, owner: str = "") -> list[Delivery]:
        """Return all deliveries of an owner's record, oldest first."""
        await self._writer.flush()
        return await self._reader.find_deliveries(
            deliveries.c.kind == kind,
            deliveries.c.record_id == record_id,
            deliveries.c.owner == owner,
        )
