"""The tables, and how times are kept in them."""

from datetime import UTC, datetime, timedelta, timezone

from cog_adapt.server.records.tables import records, to_text

NOON = datetime(2026, 11, 21, 12, 0, 0, 5, UTC)
THERE = NOON.astimezone(timezone(timedelta(hours=9)))


def test_times_are_texts_in_utc_that_sort_as_they_do():
    assert to_text(THERE) == "2026-11-21T12:00:00.000005+00:00"
    assert to_text(NOON - timedelta(hours=10)) < to_text(NOON) == to_text(THERE)


def test_an_index_of_files_leaves_out_rows_without_one():
    found = [index for index in records.indexes if index.name == "records_by_input_blob"]
    for dialect in ("sqlite", "postgresql"):
        condition = found[0].dialect_options[dialect]["where"]
        assert str(condition) == "input_blob IS NOT NULL"
