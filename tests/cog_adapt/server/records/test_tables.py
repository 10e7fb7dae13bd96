"""The tables, and how times are kept in them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import DateTime, String, Text
from sqlalchemy.dialects import postgresql, sqlite

from cog_adapt.server.records.database import open_database
from cog_adapt.server.records.record import Delivery, Record
from cog_adapt.server.records.tables import (
    BLOB_COLUMNS,
    Moment,
    deliveries,
    metadata,
    records,
    servers,
    to_text,
)

NOON = datetime(2026, 11, 21, 12, 0, 0, 5, UTC)
THERE = NOON.astimezone(timezone(timedelta(hours=9)))
SQLITE, POSTGRESQL = sqlite.dialect(), postgresql.dialect()


def test_the_migrations_make_these_tables(home):
    home.folder.mkdir()
    open_database(home.url, home.folder).dispose()
    with home.connected() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_column_for_each_field_and_for_each_large_text():
    blobs = {each.name for each in records.columns if each.name.endswith("_blob")}
    assert {each.name for each in records.columns} - blobs == set(Record.__struct_fields__)
    assert blobs == {"input_blob", "payload_blob", "output_blob", "logs_blob"}
    names = {each.name for each in deliveries.columns}
    assert names == set(Delivery.__struct_fields__) | {"body_blob"}
    assert [f"{each.table.name}.{each.name}" for each in BLOB_COLUMNS] == [
        "records.input_blob",
        "records.payload_blob",
        "records.output_blob",
        "records.logs_blob",
        "deliveries.body_blob",
    ]


def test_columns_that_must_be_there_and_keys():
    needed = {
        table.name: [each.name for each in table.columns if not each.nullable]
        for table in metadata.tables.values()
    }
    assert needed == {
        "records": [
            *("kind", "id", "owner", "status", "created_at", "metrics", "retries_left"),
        ],
        "deliveries": [
            *("id", "record_id", "kind", "owner", "event", "url", "headers", "state", "attempts"),
            "created_at",
        ],
        "servers": ["id", "host", "pid", "started", "lease_until"],
        "adapters": ["owner", "id", "created_at", "metadata", "indexed_at"],
        "adapter_readers": ["reader", "owner", "adapter_id"],
        "adapter_labels": ["label", "owner", "adapter_id"],
    }
    assert [each.name for each in records.primary_key] == ["kind", "id", "owner"]
    assert [each.name for each in deliveries.primary_key] == ["id"]
    assert [each.name for each in servers.primary_key] == ["id"]


def test_short_texts_are_as_long_as_what_they_hold():
    lengths = {
        f"{table.name}.{each.name}": each.type.length
        for table in metadata.tables.values()
        for each in table.columns
        if isinstance(each.type, String) and not isinstance(each.type, Text)
    }
    digests = [f"{each.table.name}.{each.name}" for each in BLOB_COLUMNS]
    expected = {
        name: 64 for name in [*digests, "records.input_digest", "records.owner", "deliveries.owner"]
    }
    uuids = ("records.server", "deliveries.id", "deliveries.server", "servers.id")
    words = ("records.kind", "records.status", "deliveries.kind", "deliveries.event")
    expected |= {name: 36 for name in uuids} | {name: 16 for name in words}
    assert lengths == expected | {"deliveries.state": 16, "adapter_labels.label": 32}


def test_each_way_of_looking_has_its_index():
    indexes = {
        index.name: [each.name for each in index.columns]
        for table in metadata.tables.values()
        for index in table.indexes
    }
    assert indexes == {
        "records_by_time": ["kind", "created_at", "id", "owner"],
        "records_by_status": ["kind", "status", "created_at", "id", "owner"],
        "records_by_owner": ["owner", "kind", "created_at", "id"],
        "deliveries_by_record": ["kind", "record_id", "owner", "created_at"],
        "deliveries_by_state": ["state", "next_attempt_at"],
        "adapters_by_time": ["created_at", "id", "owner"],
        "adapters_by_owner": ["owner", "created_at", "id"],
        "adapters_by_name": ["name", "owner", "version"],
        "adapters_by_id": ["id"],
        "adapter_readers_by_adapter": ["owner", "adapter_id"],
        "adapter_labels_by_adapter": ["owner", "adapter_id"],
    } | {f"{each.table.name}_by_{each.name}": [each.name] for each in BLOB_COLUMNS}


def test_an_index_of_files_leaves_out_rows_without_one():
    found = [index for index in records.indexes if index.name == "records_by_input_blob"]
    for dialect in ("sqlite", "postgresql"):
        condition = found[0].dialect_options[dialect]["where"]
        assert str(condition) == "input_blob IS NOT NULL"


def test_times_are_texts_in_utc_that_sort_as_they_do():
    assert to_text(THERE) == "2026-11-21T12:00:00.000005+00:00"
    assert to_text(NOON - timedelta(hours=10)) < to_text(NOON) == to_text(THERE)


@pytest.mark.parametrize(
    ("dialect", "value", "bound"),
    [
        (SQLITE, THERE, to_text(NOON)),
        (SQLITE, None, None),
        (POSTGRESQL, THERE, THERE),
        (POSTGRESQL, None, None),
    ],
    ids=["sqlite", "sqlite none", "postgresql", "postgresql none"],
)
def test_a_time_is_bound_as_the_database_takes_it(dialect, value, bound):
    assert Moment().process_bind_param(value, dialect) == bound


@pytest.mark.parametrize(
    ("dialect", "value", "read"),
    [(SQLITE, to_text(NOON), NOON), (POSTGRESQL, THERE, NOON), (POSTGRESQL, None, None)],
    ids=["sqlite", "postgresql", "none"],
)
def test_a_time_is_read_in_utc(dialect, value, read):
    found = Moment().process_result_value(value, dialect)
    assert found == read
    assert found is None or found.utcoffset() == timedelta(0)


def test_sqlite_keeps_a_text_and_postgresql_a_time_with_its_zone():
    kept = Moment().load_dialect_impl(SQLITE)
    assert isinstance(kept, String)
    assert kept.length == 32
    kept = Moment().load_dialect_impl(POSTGRESQL)
    assert isinstance(kept, DateTime)
    assert kept.timezone is True
    assert Moment.cache_ok is True
