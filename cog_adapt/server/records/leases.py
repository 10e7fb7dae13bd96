"""Tracks the servers that are alive, and hands the work of dead ones to others.

A lease uses a clock that cannot be set: the seconds since the boot for SQLite, whose servers share
one machine, and the database's own clock for PostgreSQL.
"""

import os
import socket
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Table,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.record import UNFINISHED
from cog_adapt.server.records.server_tables import adaptation_claims, servers
from cog_adapt.server.records.tables import deliveries, records

LEASE: Final = timedelta(seconds=10)
BEAT_SECONDS: Final = 2.0
_TAKE_OVER_LOCK: Final = 0x636F68  # any number except that of the migrations
_BOOT: Final = datetime(1970, 1, 1, tzinfo=UTC)  # uptimes are written as times from here
# a lease of an earlier release is later than this
_BY_WALL_CLOCK: Final = datetime(2020, 1, 1, tzinfo=UTC)


def beat(
    connection: Connection, server: str, url: str | None = None, token: str | None = None
) -> None:
    """Renew this server's lease.

    Args:
        connection: in a transaction.
        server: this server's id.
        url: where the others ask this server; None: they cannot.
        token: what they show there.
    """
    lease_until = _now(connection) + LEASE
    renewed = connection.execute(
        update(servers).where(servers.c.id == server).values(lease_until=lease_until)
    )
    if renewed.rowcount == 0:
        pid = os.getpid()
        connection.execute(
            insert(servers).values(
                id=server,
                host=_host(),
                pid=pid,
                started=_start_of(pid) or "",
                lease_until=lease_until,
                url=url,
                token=token,
                applied=0,  # until it confirms: a change waits for its confirmation
            )
        )


def seconds_left(connection: Connection, server: str) -> float:
    """Return how long this server's lease lasts; 0 if it is over.

    On SQLite a server without others has a whole lease, also if the disk is too full to renew it.
    """
    others = select(servers.c.id).where(servers.c.id != server).limit(1)
    if connection.dialect.name != "postgresql" and connection.execute(others).first() is None:
        return LEASE.total_seconds()
    until = connection.execute(select(servers.c.lease_until).where(servers.c.id == server)).scalar()
    return 0.0 if until is None else max(0.0, (until - _now(connection)).total_seconds())


def leave(connection: Connection, server: str) -> None:
    """End this server's lease, so that others may take over its work."""
    connection.execute(delete(servers).where(servers.c.id == server))


def take_over(connection: Connection, server: str) -> list[dict[str, Any]]:
    """Assign the unfinished records and deliveries of dead servers to this server.

    Returns:
        the rows of the records, oldest first.
    """
    if connection.dialect.name == "postgresql":  # SQLite has only one writer at a time
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_TAKE_OVER_LOCK})"))
    dead = find_dead(connection, server)
    connection.execute(
        update(deliveries)
        .where(deliveries.c.state == "pending", _is_orphan(deliveries, server, dead))
        .values(server=server)
    )
    taken = connection.execute(
        update(records)
        .where(
            records.c.kind.in_(get_args(Kind)),  # lets the query use the index
            records.c.status.in_(UNFINISHED),
            _is_orphan(records, server, dead),
        )
        .values(server=server)
        .returning(*records.c)
    )
    rows = [dict(row) for row in taken.mappings()]
    connection.execute(delete(adaptation_claims).where(_is_orphan(adaptation_claims, server, dead)))
    connection.execute(delete(servers).where(servers.c.id.in_(dead)))
    return sorted(rows, key=lambda row: (row["created_at"], row["id"]))


def _is_orphan(table: Table, server: str, dead: list[str]) -> ColumnElement[bool]:
    known = select(servers.c.id)
    owner = table.c.server
    return or_(owner.is_(None), owner.in_(dead), (owner != server) & owner.not_in(known))


def find_dead(connection: Connection, server: str) -> list[str]:
    """Return the other servers that are dead: their lease is over, or their process is gone."""
    is_over = _is_over_on_server if connection.dialect.name == "postgresql" else _is_over_on_host
    now = _now(connection)
    others = connection.execute(select(servers).where(servers.c.id != server))
    return [
        other.id
        for other in others
        if is_over(other, now) or (other.host == _host() and _start_of(other.pid) != other.started)
    ]


def _is_over_on_server(other: Row[Any], now: datetime) -> bool:
    return bool(other.lease_until < now)


def _is_over_on_host(other: Row[Any], now: datetime) -> bool:
    if _boot_of(other.host) != _boot_of(_host()):
        return True  # the lease was taken before this machine was started again
    if other.lease_until > _BY_WALL_CLOCK:
        return bool(other.lease_until < datetime.now(UTC))
    return bool(other.lease_until < now)


def _now(connection: Connection) -> datetime:
    """Return the time by one clock for all servers."""
    if connection.dialect.name == "postgresql":
        now: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return now
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return datetime.now(UTC)
    return _BOOT + timedelta(seconds=time.clock_gettime(time.CLOCK_BOOTTIME))


def _boot_of(host: str) -> str:
    """Return the part of a host's name that distinguishes two boots of a machine."""
    return host.split("/")[1] if host.count("/") > 1 else ""


@cache
def _host() -> str:
    """Identify the host and process namespace, since each container numbers its own processes."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: only its lease shows that a server is dead
        return f"{socket.gethostname()}/{os.getpid()}"


def _start_of(pid: int) -> str | None:
    """Return when a process was started, in ticks since the boot, or None if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    return None if state in "ZX" else fields[18]
