"""Records and deliveries as rows of both databases."""

import json
from datetime import timedelta, timezone

import pytest
from sqlalchemy import select, update

from cog_adapt.server.records.blobs import BlobFolder, Blobs
from cog_adapt.server.records.database import for_writing, open_database
from cog_adapt.server.records.rows import (
    find_foreign,
    to_record,
    to_row,
    upsert,
)
from cog_adapt.server.records.tables import deliveries, records
from tests.cog_adapt.server.records.home import START, make_delivery, make_record


@pytest.fixture
def blobs(tmp_path):
    return Blobs(BlobFolder(tmp_path / "blobs"), 10)


@pytest.fixture
def connection(home):
    home.folder.mkdir()
    engine = open_database(home.url, home.folder)
    with for_writing(engine).begin() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def save(connection, blobs):
    """Writes items as one server; returns how many were taken."""

    def save(*items, server="one"):
        table = records if hasattr(items[0], "status") else deliveries
        return upsert(connection, table, [to_row(item, server, blobs) for item in items])

    return save


def read(connection, table):
    return connection.execute(select(table).order_by(table.c.id)).mappings().all()


def owners(connection, table=records):
    return {row["id"]: row["server"] for row in read(connection, table)}


def test_a_row_is_ready_for_json_in_the_order_of_the_table(blobs):
    there = START.astimezone(timezone(timedelta(hours=9)))
    row = to_row(make_record(1, created_at=there, webhook_events=("start",)), "one", blobs)
    assert row["created_at"] == START.isoformat()
    assert row["started_at"] is None
    assert row["webhook_events"] == '["start"]'
    assert row["server"] == "one"
    assert to_row(make_record(1), "one", blobs)["webhook_events"] is None
    assert json.loads(json.dumps(row)) == row
    assert list(row) == records.columns.keys()
    assert list(to_row(make_delivery(1), "one", blobs)) == deliveries.columns.keys()


def test_a_row_without_logs_has_none(connection, save, blobs):
    save(make_record(1))
    connection.execute(update(records).values(logs=None))
    assert to_record(read(connection, records)[0], blobs).logs == ""


def test_a_server_replaces_its_own_rows(connection, save):
    save(make_record(1, status="processing"), make_record(2))
    assert save(make_record(1, status="failed", error="boom")) == 1
    assert [(row["status"], row["error"]) for row in read(connection, records)] == [
        ("failed", "boom"),
        ("succeeded", None),
    ]


@pytest.mark.parametrize("status", ["succeeded", "failed", "canceled"])
def test_an_id_that_has_ended_goes_to_a_later_run_only(connection, save, status):
    save(make_record(1, status=status), server="one")
    assert save(make_record(1), server="other") == 0
    later = make_record(1, created_at=make_record(1).created_at + timedelta(microseconds=1))
    assert save(later, server="other") == 1
    assert owners(connection) == {"r1": "other"}


def test_a_row_of_nobody_is_anybodys(connection, save):
    save(make_record(1, status="processing"))
    save(make_delivery(1))
    for table in (records, deliveries):
        connection.execute(update(table).values(server=None))
    assert save(make_record(1, status="processing"), server="other") == 1
    assert save(make_delivery(1), server="other") == 1
    assert owners(connection) == {"r1": "other"}
    assert owners(connection, deliveries) == {"d1": "other"}


@pytest.mark.parametrize(("state", "written"), [("pending", 0), ("delivered", 1), ("failed", 1)])
def test_a_delivery_is_its_servers_while_it_is_owed(save, state, written):
    save(make_delivery(1, state=state), server="one")
    assert save(make_delivery(1), server="other") == written


def test_many_rows_are_written_some_at_once(connection, save, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.rows.ROWS_AT_ONCE", 2)
    items = [make_record(number, status="processing") for number in range(5)]
    assert save(*items) == 5
    keys = [("predict", f"r{number}", "") for number in range(6)]
    assert find_foreign(connection, keys, "other") == set(keys[:5])
    assert find_foreign(connection, keys, "one") == set()
    assert find_foreign(connection, keys[:1], "other") == {("predict", "r0", "")}


def test_keys_of_another_kind_are_not_foreign(connection, save):
    save(make_record(1, kind="train"))
    assert find_foreign(connection, [("predict", "r1", "")], "other") == set()


@pytest.mark.parametrize(
    ("logs", "kept"),
    [("a\0b", "a\ufffdb"), ("c\ud800d", "c?d"), ("\0\ud800", "\ufffd?"), ("ö\\u0000", "ö\\u0000")],
)
def test_what_no_text_of_a_database_holds_is_replaced(connection, save, logs, kept):
    save(make_record(1, logs=logs), make_record(2, error="fine"))
    rows = read(connection, records)
    assert [row["logs"] for row in rows] == [kept, ""]
    assert rows[1]["error"] == "fine"
