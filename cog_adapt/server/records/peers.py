"""The other servers of the same database: where they are, and the waiting work they give away."""

import secrets
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, select, tuple_, update

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.batch import Key
from cog_adapt.server.records.reader import Reader
from cog_adapt.server.records.record import Record
from cog_adapt.server.records.rows import find_foreign
from cog_adapt.server.records.server_tables import servers
from cog_adapt.server.records.tables import KEY, records
from cog_adapt.server.records.writer import Writer

_TOKEN_BYTES: Final = 24


class Peer(NamedTuple):
    """Another living server.

    Attributes:
        url: its root; None: it cannot be asked, because its release or its start gives none.
        token: the secret by which it knows a request of a server of its database.
    """

    url: str | None
    token: str | None


class PeerServers:
    """Finds the other servers, and takes waiting work of busy ones.

    Methods raise `StorageError` if the database cannot be used.

    Args:
        server: the id of this server.
        writer: of the records.
        reader: of the records.
        is_shared: whether servers of several hosts may use the database, as only PostgreSQL lets
            them.

    Attributes:
        token: what the others show when they ask this server; only the database tells it.
    """

    def __init__(self, server: str, writer: Writer, reader: Reader, *, is_shared: bool) -> None:
        self._server = server
        self._writer = writer
        self._reader = reader
        self._said = 0
        self.is_shared = is_shared
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)

    def is_elsewhere(self, record: Record) -> bool:
        """Return whether another server, living or dead, works on a record."""
        return not record.is_finished and record.server not in (None, self._server)

    async def find(self, server: str | None) -> Peer | None:
        """Return a server that has not been found dead, or None."""
        query = select(servers.c.url, servers.c.token).where(servers.c.id == server)
        row = await self._reader.run(lambda connection: connection.execute(query).first())
        return None if row is None else Peer(*row)

    async def say_waiting(self, count: int) -> None:
        """Tell the others how many predictions wait here that they may take."""
        if count or self._said:
            change = update(servers).where(servers.c.id == self._server).values(waiting=count)
            await self._writer.call(lambda connection: connection.execute(change))
            self._said = count

    async def find_moved(self, keys: Collection[Key]) -> set[Key]:
        """Return those of this server's records that another server has taken."""
        return await self._reader.run(partial(find_foreign, keys=keys, server=self._server))

    async def take_waiting(self, free: Mapping[Kind, int]) -> list[Record]:
        """Take the oldest records that wait at busy servers.

        Args:
            free: the most records of each kind.
        """
        if not await self._reader.run(self._others_wait):
            return []
        rows: list[dict[str, Any]] = []
        for kind, most in free.items():
            if most > 0:
                take = partial(_take_waiting, server=self._server, kind=kind, most=most)
                rows += await self._writer.call(take)
        return await self._reader.restore(rows)

    def _others_wait(self, connection: Connection) -> bool:
        query = select(servers.c.id).where(servers.c.waiting > 0, servers.c.id != self._server)
        return connection.execute(query.limit(1)).first() is not None


def _take_waiting(
    connection: Connection, server: str, kind: Kind, most: int
) -> list[dict[str, Any]]:
    """Make waiting records this server's; what another server is taking or beginning is skipped."""
    busy = select(servers.c.id).where(servers.c.waiting > 0, servers.c.id != server)
    oldest = (
        select(*KEY)
        .where(
            records.c.kind == kind,
            records.c.status == "starting",
            records.c.movable.is_(True),
            records.c.server.in_(busy),
        )
        .order_by(records.c.created_at, records.c.id)
        .limit(most)
        .with_for_update(skip_locked=True)
        .cte("oldest")
    )
    taken = connection.execute(
        update(records)
        .where(tuple_(*KEY).in_(select(oldest)))
        .values(server=server)
        .returning(*records.c)
    )
    rows = [dict(row) for row in taken.mappings()]
    return sorted(rows, key=lambda row: (row["created_at"], row["id"]))
