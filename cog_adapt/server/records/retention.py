"""Removes old records with their deliveries."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    delete,
    exists,
    func,
    literal,
    select,
    true,
    tuple_,
)

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.record import FINISHED
from cog_adapt.server.records.tables import BLOB_COLUMNS, KEY, Moment, deliveries, records

ROWS_AT_ONCE: Final = 500
_BLOBS: Final = [column for column in BLOB_COLUMNS if column.table is records]
_TEXTS: Final = ("input", "payload", "output", "logs", "metrics", "error")
_COLUMNS: Final = (records.c.created_at, records.c.id, records.c.owner)
_PLACE: Final = tuple_(*_COLUMNS)


def delete_old(connection: Connection, kind: Kind, before: datetime, max_count: int) -> int:
    """Delete some finished records that have no pending webhook.

    Args:
        connection: a connection in a transaction.
        kind: the kind of records; counts are separate, so predictions never displace trainings.
        before: records that finished earlier are too old.
        max_count: the number of newest records to keep.

    Returns:
        the number of deleted records; 0 if none is left to delete.
    """
    found = _select(kind, *_is_older(before))
    ids = {tuple(row) for row in connection.execute(found)}
    surplus = connection.execute(_select_surplus(kind, max_count)).first()
    if surplus is not None:
        border = tuple_(
            literal(surplus.created_at, Moment), literal(surplus.id), literal(surplus.owner)
        )
        found = _select(kind, border >= _PLACE)
        ids.update(tuple(row) for row in connection.execute(found))
    _delete(connection, kind, list(ids))
    return len(ids)


class RemovedRecords(NamedTuple):
    """The result of a deletion.

    Attributes:
        number: of records.
        row_bytes: of their texts in the tables.
        blobs: names of their large texts.
    """

    number: int
    row_bytes: int
    blobs: set[str]


def delete_oldest(connection: Connection, owner: str | None = None) -> RemovedRecords:
    """Delete a tenth of the finished records that have no pending webhook, the oldest first.

    Args:
        connection: a connection in a transaction.
        owner: of the records; None: all owners.
    """
    is_theirs = true() if owner is None else records.c.owner == owner
    finished = and_(records.c.status.in_(FINISHED), is_theirs)
    total = connection.scalar(select(func.count()).select_from(records).where(finished)) or 0
    texts: Any = [func.coalesce(func.length(records.c[name]), 0) for name in _TEXTS]
    found = connection.execute(
        select(*KEY, *_BLOBS, sum(texts[1:], texts[0]).label("size"))
        .where(finished, ~_is_owed())
        .order_by(*_COLUMNS)
        .limit(min(ROWS_AT_ONCE, max(1, total // 10)))
    ).all()
    for kind in {row.kind for row in found}:
        _delete(connection, kind, [(row.id, row.owner) for row in found if row.kind == kind])
    blobs = {getattr(row, column.name) for row in found for column in _BLOBS}
    return RemovedRecords(len(found), sum(row.size for row in found), blobs - {None})


def _is_older(before: datetime) -> tuple[ColumnElement[bool], ...]:
    # `created_at` has an index
    return records.c.completed_at < before, records.c.created_at < before


def _is_owed() -> ColumnElement[bool]:
    return exists().where(
        deliveries.c.kind == records.c.kind,
        deliveries.c.record_id == records.c.id,
        deliveries.c.owner == records.c.owner,
        deliveries.c.state == "pending",
    )


def _select(kind: Kind, *conditions: ColumnElement[bool]) -> Select[Any]:
    return (
        select(records.c.id, records.c.owner)
        .where(records.c.kind == kind, records.c.status.in_(FINISHED), ~_is_owed(), *conditions)
        .limit(ROWS_AT_ONCE)
    )


def _select_surplus(kind: Kind, max_count: int) -> Select[Any]:
    """Select the newest record beyond the count."""
    return (
        select(*_COLUMNS)
        .where(records.c.kind == kind, records.c.status.in_(FINISHED))
        .order_by(*(column.desc() for column in _COLUMNS))
        .offset(max_count)
        .limit(1)
    )


def _delete(connection: Connection, kind: Kind, ids: Sequence[Any]) -> None:
    of_delivery = tuple_(deliveries.c.record_id, deliveries.c.owner)
    connection.execute(delete(deliveries).where(deliveries.c.kind == kind, of_delivery.in_(ids)))
    of_record = tuple_(records.c.id, records.c.owner)
    connection.execute(delete(records).where(records.c.kind == kind, of_record.in_(ids)))


def find_used(connection: Connection, names: list[str]) -> set[str]:
    """Return those of the blobs that a row names."""
    used: set[str] = set()
    for column in BLOB_COLUMNS:
        used.update(connection.scalars(select(column).where(column.in_(names))))
    return used
