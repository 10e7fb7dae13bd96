"""The tables. A change needs a migration in `migrations/versions/`; a test compares the two."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import (
    Boolean,
    Column,
    ColumnElement,
    DateTime,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    column,
)
from sqlalchemy.types import TypeEngine

metadata = MetaData()


def to_text(moment: datetime) -> str:
    """Return a time in UTC as text that sorts like the times."""
    # like isoformat(), which takes three times as long for each time on the hot path
    return f"{msgspec.to_builtins(moment.astimezone(UTC))[:-1]}+00:00"


class Moment(TypeDecorator[datetime]):
    """A time in UTC: timestamptz in PostgreSQL, ISO 8601 text in SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose text for SQLite, whose own type drops the time zone."""
        is_sqlite = dialect.name == "sqlite"
        chosen: TypeEngine[Any] = String(32) if is_sqlite else DateTime(timezone=True)
        return dialect.type_descriptor(chosen)

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ANN401
        """Convert a time for the statement."""
        return value if value is None or dialect.name != "sqlite" else to_text(value)

    def process_result_value(
        self, value: datetime | str | None, dialect: Dialect
    ) -> datetime | None:
        """Convert a time from the row."""
        if isinstance(value, str):
            return datetime.fromisoformat(value)
        return None if value is None else value.astimezone(UTC)


def _index_of_blobs(table: str, name: str) -> Index:
    condition: ColumnElement[bool] = column(name).is_not(None)
    return Index(f"{table}_by_{name}", name, sqlite_where=condition, postgresql_where=condition)


# A text above the limit is in the file that its `_blob` column names.
records = Table(
    "records",
    metadata,
    Column("kind", String(16), primary_key=True),
    Column("id", Text, primary_key=True),
    Column("owner", String(64), primary_key=True),
    Column("status", String(16), nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("started_at", Moment),
    Column("completed_at", Moment),
    Column("input", Text),
    Column("input_blob", String(64)),
    Column("payload", Text),
    Column("payload_blob", String(64)),
    Column("input_digest", String(64)),
    Column("output", Text),
    Column("output_blob", String(64)),
    Column("logs", Text),
    Column("logs_blob", String(64)),
    Column("metrics", Text, nullable=False),
    Column("error", Text),
    Column("webhook", Text),
    Column("webhook_events", Text),
    Column("server", String(36)),
    Column("retries_left", Integer, nullable=False),
    Column("deadline", Moment),
    Column("origin", Text),
    Column("movable", Boolean),
    Index("records_by_time", "kind", "created_at", "id", "owner"),
    Index("records_by_status", "kind", "status", "created_at", "id", "owner"),
    Index("records_by_owner", "owner", "kind", "created_at", "id"),
    _index_of_blobs("records", "input_blob"),
    _index_of_blobs("records", "payload_blob"),
    _index_of_blobs("records", "output_blob"),
    _index_of_blobs("records", "logs_blob"),
)

deliveries = Table(
    "deliveries",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("record_id", Text, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("owner", String(64), nullable=False),
    Column("event", String(16), nullable=False),
    Column("url", Text, nullable=False),
    Column("body", Text),
    Column("body_blob", String(64)),
    Column("headers", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("next_attempt_at", Moment),
    Column("last_status", Integer),
    Column("last_error", Text),
    Column("created_at", Moment, nullable=False),
    Column("delivered_at", Moment),
    Column("server", String(36)),
    Index("deliveries_by_record", "kind", "record_id", "owner", "created_at"),
    Index("deliveries_by_state", "state", "next_attempt_at"),
    _index_of_blobs("deliveries", "body_blob"),
)

KEY = (records.c.kind, records.c.id, records.c.owner)
# An index of the predictor's files; `metadata` is the JSON from the predictor.
adapters = Table(
    "adapters",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("name", Text),
    Column("version", Integer),
    Column("method", Text),
    Column("created_at", Moment, nullable=False),
    Column("expires_at", Moment),
    Column("metadata", Text, nullable=False),
    Column("indexed_at", Moment, nullable=False),
    Index("adapters_by_time", "created_at", "id", "owner"),
    Index("adapters_by_owner", "owner", "created_at", "id"),
    Index("adapters_by_name", "name", "owner", "version"),
    Index("adapters_by_id", "id"),
)

# The owners who may use an adapter besides its own; `*` is everybody.
adapter_readers = Table(
    "adapter_readers",
    metadata,
    Column("reader", Text, primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("adapter_id", Text, primary_key=True),
    Index("adapter_readers_by_adapter", "owner", "adapter_id"),
)

# Each label as a digest, because a task may have long labels, of any characters.
adapter_labels = Table(
    "adapter_labels",
    metadata,
    Column("label", String(32), primary_key=True),
    Column("owner", Text, primary_key=True),
    Column("adapter_id", Text, primary_key=True),
    Index("adapter_labels_by_adapter", "owner", "adapter_id"),
)

BLOB_COLUMNS = [
    each for table in (records, deliveries) for each in table.columns if each.name.endswith("_blob")
]
