"""Converts records and deliveries to rows and back, and writes a batch in one statement.

The rows are sent as one JSON parameter that the database takes apart. With a statement for each
row, writer and event loop would pass the interpreter's lock back and forth, which makes both
several times slower when the loop is busy.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import (
    JSON,
    ColumnElement,
    Connection,
    Insert,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.base import ReadOnlyColumnCollection
from sqlalchemy.sql.elements import KeyedColumnElement

from cog_adapt.server.records.blobs import Blobs
from cog_adapt.server.records.record import FINISHED, Delivery, Record
from cog_adapt.server.records.tables import KEY, Moment, deliveries, records, to_text

_Columns = ReadOnlyColumnCollection[str, KeyedColumnElement[Any]]
ROWS_AT_ONCE: Final = 250  # of up to five texts below the limit: far below SQLite's 1 GB


class _Shape(NamedTuple):
    """The columns of a table, and those that need conversion."""

    names: list[str]
    moments: list[str]
    large: list[str]
    key: list[str]


def _shape_of(table: Table) -> _Shape:
    names = [column.name for column in table.columns]
    return _Shape(
        names,
        moments=[column.name for column in table.columns if isinstance(column.type, Moment)],
        large=[name for name in names if f"{name}_blob" in names],
        key=[column.name for column in table.primary_key],
    )


_SHAPES: Final = {table: _shape_of(table) for table in (records, deliveries)}


def to_row(item: Record | Delivery, server: str, blobs: Blobs) -> dict[str, Any]:
    """Return columns and values, ready for JSON; write large texts to files.

    Raises:
        OSError: a file could not be written.
    """
    row = msgspec.structs.asdict(item)
    shape = _SHAPES[records if isinstance(item, Record) else deliveries]
    row["server"] = server
    for name in shape.moments:
        if row[name] is not None:
            row[name] = to_text(row[name])
    for name in shape.large:
        text = row[name]
        if text is not None and blobs.is_large(text):
            row[name], row[f"{name}_blob"] = None, blobs.put(text, item.owner)
    if row.get("webhook_events") is not None:
        row["webhook_events"] = msgspec.json.encode(row["webhook_events"]).decode()
    return row


def upsert(connection: Connection, table: Table, rows: list[dict[str, Any]]) -> int:
    """Insert the rows, or replace those of the same key.

    Returns:
        the number of rows written; the others are unfinished and belong to other servers.
    """
    statement = _UPSERTS[table, connection.dialect.name].execution_options(preserve_rowcount=True)
    written = 0
    for start in range(0, len(rows), ROWS_AT_ONCE):
        data = _encode(rows[start : start + ROWS_AT_ONCE])
        written += connection.execute(statement, {"rows": data}).rowcount
    return written


def find_foreign(
    connection: Connection, rows: Iterable[Mapping[str, Any]], server: str
) -> set[tuple[str, str, str]]:
    """Return the keys (kind, id, owner) of the records that another server owns."""
    keys = [(row["kind"], row["id"], row["owner"]) for row in rows]
    found: set[tuple[str, str, str]] = set()
    for start in range(0, len(keys), ROWS_AT_ONCE):
        query = select(*KEY).where(
            tuple_(*KEY).in_(keys[start : start + ROWS_AT_ONCE]),
            records.c.server != server,
        )
        found.update((kind, name, owner) for kind, name, owner in connection.execute(query))
    return found


def to_record(row: Mapping[Any, Any], blobs: Blobs | None) -> Record:
    """Convert a row to a record; without blobs, large texts are only references."""
    values = _restore(records, row, blobs)
    if values["logs"] is None:
        values["logs"] = ""
    if values["webhook_events"] is not None:
        values["webhook_events"] = tuple(msgspec.json.decode(values["webhook_events"]))
    return Record(**values)


def to_delivery(row: Mapping[Any, Any], blobs: Blobs) -> Delivery:
    """Convert a row to a delivery."""
    return Delivery(**_restore(deliveries, row, blobs))


def _restore(table: Table, row: Mapping[Any, Any], blobs: Blobs | None) -> dict[str, Any]:
    values = {name: value for name, value in row.items() if not name.endswith("_blob")}
    for name in _SHAPES[table].large:
        digest = row[f"{name}_blob"]
        if digest is not None:
            values[name] = _read(name, digest, blobs)
    return values


def _read(name: str, digest: str, blobs: Blobs | None) -> str | None:
    text = None if blobs is None else blobs.get(digest)
    if text is None and name != "payload":  # half a request must not be run
        return f'{{"stored":"sha256:{digest}"}}'
    return text


def _encode(rows: list[dict[str, Any]]) -> str:
    try:
        data = msgspec.json.encode(rows)
    except UnicodeEncodeError:
        data = msgspec.json.encode([_clean(row) for row in rows])
    if rb"\u0000" in data:
        data = msgspec.json.encode([_clean(row) for row in rows])
    return data.decode()


def _clean(row: dict[str, Any]) -> dict[str, Any]:
    """Replace characters that a database's text cannot hold: NUL and lone surrogates."""
    return {
        name: value.replace("\0", "\ufffd").encode(errors="replace").decode()
        if isinstance(value, str)
        else value
        for name, value in row.items()
    }


def _may_write(table: Table, new: _Columns) -> ColumnElement[bool]:
    """Make the condition for a write: a server believed dead must not undo its successor's work."""
    own = or_(table.c.server.is_(None), table.c.server == new["server"])
    if table is deliveries:
        return or_(own, table.c.state != "pending")
    is_over = table.c.status.in_(FINISHED)
    return or_(own, and_(is_over, new["created_at"] > table.c.created_at))


def _sqlite_upsert(table: Table) -> Insert:
    shape = _SHAPES[table]
    source = func.json_each(bindparam("rows", type_=Text)).table_valued("value")
    values = [func.json_extract(source.c.value, f"$.{name}") for name in shape.names]
    insert = sqlite.insert(table).from_select(shape.names, select(*values).where(true()))
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=shape.key,
        set_={name: new[name] for name in shape.names if name not in shape.key},
        where=_may_write(table, new),
    )


def _postgresql_upsert(table: Table) -> Insert:
    shape = _SHAPES[table]
    rows = cast(bindparam("rows", type_=Text), JSON)
    source = func.json_populate_recordset(literal_column(f"NULL::{table.name}"), rows)
    values = source.table_valued(*shape.names, name="source")
    insert = postgresql.insert(table).from_select(
        shape.names, select(*[values.c[name] for name in shape.names])
    )
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=shape.key,
        set_={name: new[name] for name in shape.names if name not in shape.key},
        where=_may_write(table, new),
    )


_UPSERTS: Final = {
    (table, dialect): build(table)
    for table in (records, deliveries)
    for dialect, build in (("sqlite", _sqlite_upsert), ("postgresql", _postgresql_upsert))
}
