"""The sequence of adapters' changes, by which the servers of a database learn from each other.

A change gets its number under a lock, so numbers are in the order of the commits: a server that has
read a number has read all earlier ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, delete, func, insert, select, text, update

from cog_adapt.server.records import leases
from cog_adapt.server.records.server_tables import adapter_changes, servers
from cog_adapt.server.records.tables import adapters

KEPT: Final = timedelta(hours=1)
MOST_READ: Final = 1000
_LOCK: Final = 0x636F6A  # any number except those of migrations, leases and blobs


class AdapterChange(NamedTuple):
    """A change of an adapter, or a cached adaptation that was forgotten.

    Attributes:
        owner: of the adapter.
        adapter_id: of the adapter; "" for a forgotten adaptation.
        forgotten_key: the adaptation's key, "" for all of the owner; None: an adapter changed.
        metadata: the adapter's present metadata as JSON; None: there is no such adapter.
    """

    owner: str
    adapter_id: str
    forgotten_key: str | None = None
    metadata: bytes | None = None


@dataclass(frozen=True)
class ChangesRead:
    """The changes of other servers that one server had not read.

    Attributes:
        changes: of each adapter the last.
        last: the number of the last change that was read, this server's own included.
        is_all: whether there were no more.
        are_missed: whether some were deleted before this read: the files must be read anew.
        confirmed: the number up to which this server has confirmed; None: it has no lease.
        lease_seconds: the time that this server's lease lasts from the read on.
    """

    changes: Sequence[AdapterChange]
    last: int
    is_all: bool
    are_missed: bool
    confirmed: int | None
    lease_seconds: float


def lock(connection: Connection) -> None:
    """Let no other server change adapters' rows before this transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite has only one writer at a time
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK})"))


def append(connection: Connection, server: str, changes: Iterable[AdapterChange]) -> int:
    """Append changes in a locked transaction; return the number of the last one, 0 without any."""
    now, number = datetime.now(UTC), 0
    for change in changes:
        row = {
            "owner": change.owner,
            "adapter_id": change.adapter_id,
            "forgotten_key": change.forgotten_key,
            "server": server,
            "made_at": now,
        }
        inserted = insert(adapter_changes).values(row).returning(adapter_changes.c.seq)
        number = connection.execute(inserted).scalar_one()
    return number


def read_last(connection: Connection) -> int:
    """Return the number of the last change that is kept; 0 without any."""
    return connection.execute(select(func.max(adapter_changes.c.seq))).scalar() or 0


def read_changes(connection: Connection, server: str, after: int) -> ChangesRead:
    """Read the changes after a number that other servers have made."""
    lease_seconds = leases.seconds_left(connection, server)  # first, since it ends while we read
    its = adapter_changes.c
    here = (adapters.c.owner == its.owner) & (adapters.c.id == its.adapter_id)
    query = (
        select(its.seq, its.server, its.owner, its.adapter_id, its.forgotten_key)
        .add_columns(adapters.c.metadata)
        .select_from(adapter_changes.outerjoin(adapters, here))
        .where(its.seq > after)
        .order_by(its.seq)
        .limit(MOST_READ)
    )
    rows = connection.execute(query).all()
    first = connection.execute(select(func.min(its.seq))).scalar() or 0
    foreign = {
        (row.owner, row.adapter_id, row.forgotten_key): row for row in rows if row.server != server
    }
    confirmed = select(servers.c.applied).where(servers.c.id == server)
    return ChangesRead(
        changes=[_to_change(row) for row in foreign.values()],
        last=rows[-1].seq if rows else after,
        is_all=len(rows) < MOST_READ,
        are_missed=first > after + 1,
        confirmed=connection.execute(confirmed).scalar(),
        lease_seconds=lease_seconds,
    )


def _to_change(row: Row[Any]) -> AdapterChange:
    metadata = None if row.metadata is None else row.metadata.encode()
    return AdapterChange(row.owner, row.adapter_id, row.forgotten_key, metadata)


def places_after(connection: Connection, number: int) -> set[tuple[str, str]]:
    """Return owner and id of the adapters that any server has changed after a number."""
    its = adapter_changes.c
    rows = connection.execute(select(its.owner, its.adapter_id).where(its.seq > number))
    return {(owner, adapter_id) for owner, adapter_id in rows}


def confirm(connection: Connection, server: str, number: int) -> None:
    """Note that the workers of a server know all changes up to a number."""
    connection.execute(update(servers).where(servers.c.id == server).values(applied=number))


def read_behind(connection: Connection, server: str, number: int) -> list[str]:
    """Return the other living servers that have not confirmed a number."""
    dead = leases.find_dead(connection, server)
    query = select(servers.c.id).where(
        servers.c.id != server, servers.c.id.not_in(dead), servers.c.applied < number
    )
    return [*connection.scalars(query)]


def prune(connection: Connection) -> None:
    """Delete all changes before the last old one; a server that was stopped for long misses some.

    The last change is kept, so that such a server notices.
    """
    old = adapter_changes.c.made_at < datetime.now(UTC) - KEPT
    last = select(func.max(adapter_changes.c.seq)).where(old).scalar_subquery()
    connection.execute(delete(adapter_changes).where(adapter_changes.c.seq < last))
