"""Removes finished records with everything that belongs to them, so that none of their bytes stays.

Files shared by content stay while other rows name them. SQLite overwrites removed data; PostgreSQL
reuses its pages when it vacuums.
"""

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Select,
    delete,
    func,
    or_,
    select,
    text,
)
from sqlalchemy.pool import PoolProxiedConnection

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.blobs import Blobs
from cog_adapt.server.records.record import UNFINISHED, Delivery
from cog_adapt.server.records.retention import find_used
from cog_adapt.server.records.tables import BLOB_COLUMNS, deliveries, records

YOUNG_SECONDS: Final = 2 * 3600.0  # a sweep removes large values that are older and unused
MOST_REWRITTEN: Final = 64 * 2**20  # bytes of a database; rewriting them takes about 0.2 s
MOST_SEARCHED: Final = 1000  # large values that are searched for mentions
_BLOB_LOCK: Final = 0x636F69  # any number except those of migrations and leases
_TRIES: Final = 3


class RecordSelection(NamedTuple):
    """The records to remove: one of an id, or all of an owner."""

    kind: Kind
    owner: str
    id: str | None = None

    def of_records(self) -> list[ColumnElement[bool]]:
        """Return the conditions for records."""
        conditions = [records.c.kind == self.kind, records.c.owner == self.owner]
        return conditions if self.id is None else [*conditions, records.c.id == self.id]

    def of_deliveries(self) -> list[ColumnElement[bool]]:
        """Return the conditions for their deliveries."""
        conditions = [deliveries.c.kind == self.kind, deliveries.c.owner == self.owner]
        return conditions if self.id is None else [*conditions, deliveries.c.record_id == self.id]


class ForgottenRecords(NamedTuple):
    """The result of a removal.

    Attributes:
        removed: the number of records.
        unfinished: the number of records that have not ended; if any, none were removed.
    """

    removed: int
    unfinished: int = 0


def share_files(connection: Connection) -> None:
    """Keep files from removal until this transaction's rows exist; SQLite locks anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock_shared({_BLOB_LOCK})"))


def forget(connection: Connection, chosen: RecordSelection, blobs: Blobs) -> ForgottenRecords:
    """Remove records, their deliveries, and the files that no other row names.

    Files that only earlier states named, such as a run's payload, are removed by sweeps.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_BLOB_LOCK})"))
    unfinished = connection.scalar(
        select(func.count())
        .select_from(records)
        .where(*chosen.of_records(), records.c.status.in_(UNFINISHED))
    )
    if unfinished:
        return ForgottenRecords(0, unfinished)
    names = _names_of_files(connection, chosen)
    connection.execute(delete(deliveries).where(*chosen.of_deliveries()))
    removed = connection.execute(delete(records).where(*chosen.of_records())).rowcount
    young = blobs.changed_within(YOUNG_SECONDS)
    blobs.remove_unused([*names, *young], partial(find_used, connection))
    return ForgottenRecords(removed)


def find_forgotten(connection: Connection, attempted: Iterable[Delivery]) -> set[str]:
    """Return the ids of the tried deliveries that no longer exist."""
    tried = {each.id for each in attempted if each.attempts}
    if not tried:
        return tried
    query = select(deliveries.c.id).where(deliveries.c.id.in_(sorted(tried)))
    return tried.difference(connection.scalars(query))


def _names_of_files(connection: Connection, chosen: RecordSelection) -> set[str]:
    names: set[str] = set()
    for column in BLOB_COLUMNS:
        of_records = column.table is records
        conditions = chosen.of_records() if of_records else chosen.of_deliveries()
        query = select(column).where(column.is_not(None), *conditions)
        names.update(connection.scalars(query))
    return names


def is_mentioned(
    connection: Connection, word: str, owner: str, but: Sequence[Any], blobs: Blobs
) -> bool:
    """Return whether another record of an owner mentions a word, such as the id of an adapter.

    Args:
        connection: to the database.
        word: letters and digits.
        owner: of the records.
        but: kind and id of the record to ignore.
        blobs: the large values; if they are too many to search, the word counts as found.
    """
    others = [records.c.owner == owner, or_(records.c.kind != but[0], records.c.id != but[1])]
    columns = (records.c.input, records.c.output, records.c.metrics)
    short = or_(*(column.contains(word, autoescape=True) for column in columns))
    if connection.execute(select(records.c.id).where(*others, short).limit(1)).first():
        return True
    large = [
        name
        for column in (records.c.input_blob, records.c.output_blob)
        for name in connection.scalars(_large(column, others))
    ]
    if len(large) > MOST_SEARCHED:
        return True
    return any(word in (blobs.get(name) or "") for name in large)


def _large(column: Any, others: list[ColumnElement[bool]]) -> Select[Any]:  # noqa: ANN401
    return select(column).where(column.is_not(None), *others).limit(MOST_SEARCHED + 1)


def overwrite(engine: Engine) -> bool:
    """Remove the traces of deleted rows from SQLite's files; return whether that succeeded.

    `secure_delete` overwrites removed rows, but not the traces of rows that moved between pages:
    only a new file has none. A large database is left to the operator's VACUUM.
    """
    if engine.dialect.name != "sqlite":
        return True
    with contextlib.closing(engine.raw_connection()) as connection:  # outside any transaction
        try:
            is_new = _rewrite(connection)
            return _empty_log(connection) and is_new
        except sqlite3.OperationalError:  # another process writes for seconds
            return False


def _rewrite(connection: PoolProxiedConnection) -> bool:
    size = _ask(connection, "PRAGMA page_count") * _ask(connection, "PRAGMA page_size")
    if size > MOST_REWRITTEN:
        return False
    connection.cursor().execute("VACUUM")
    return True


def _empty_log(connection: PoolProxiedConnection) -> bool:
    """Empty the write-ahead log, which holds earlier contents of pages."""
    return any(_ask(connection, "PRAGMA wal_checkpoint(TRUNCATE)") == 0 for _ in range(_TRIES))


def _ask(connection: PoolProxiedConnection, question: str) -> int:
    """Return the first number of a result."""
    answer: Any = connection.cursor().execute(question)
    number, *_ = answer.fetchone()
    answer.close()
    return int(number)
