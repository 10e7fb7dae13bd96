"""The adaptations under way at the servers of a PostgreSQL database, as rows.

A row is its server's, and counts for nothing once that server is dead.
"""

from functools import partial

from sqlalchemy import Connection, delete, or_, select
from sqlalchemy.dialects.postgresql import insert

from cog_adapt.server.records import leases
from cog_adapt.server.records.server_tables import adaptation_claims, servers
from cog_adapt.server.records.writer import Writer

_its = adaptation_claims.c


class ClaimRows:
    """The claims of one server. Raises `StorageError` when the database cannot be used.

    Args:
        writer: writes the rows.
        server: the id of the server.
    """

    def __init__(self, writer: Writer, server: str) -> None:
        self._writer = writer
        self._server = server

    async def take(self, owner: str, key: str) -> bool:
        """Take the claim, unless another living server has it; return whether it is taken."""
        take = partial(_take, owner=owner, key=key, server=self._server)
        return await self._writer.call(take)

    async def release(self, owner: str, key: str) -> None:
        """Give the claim up."""
        release = partial(_release, owner=owner, key=key, server=self._server)
        await self._writer.call(release)


def _take(connection: Connection, owner: str, key: str, server: str) -> bool:
    row = {"owner": owner, "key": key, "server": server}
    taking = insert(adaptation_claims).values(row).on_conflict_do_nothing().returning(_its.key)
    if connection.execute(taking).first() is not None:
        return True
    dead = leases.find_dead(connection, server)
    is_orphan = or_(_its.server.in_(dead), _its.server.not_in(select(servers.c.id)))
    orphan = delete(adaptation_claims).where(_its.owner == owner, _its.key == key, is_orphan)
    if connection.execute(orphan).rowcount:
        return connection.execute(taking).first() is not None
    holder = select(_its.server).where(_its.owner == owner, _its.key == key)
    return connection.execute(holder).scalar() == server


def _release(connection: Connection, owner: str, key: str, server: str) -> None:
    mine = (_its.owner == owner, _its.key == key, _its.server == server)
    connection.execute(delete(adaptation_claims).where(*mine))
