"""A row gives its columns, and remembers which of them were asked for."""

from cog_adapt.runner.data.row import Row, brief


def test_a_row_is_a_mapping_that_knows_what_was_read():
    row = Row("row 1", {"text": "a", "mood": "good"})
    assert "mood" in row
    assert [*row] == ["text", "mood"]
    assert len(row) == 2
    assert row.used == set()
    assert row["text"] == "a"
    assert row.get("nothing") is None
    assert row.used == {"text"}


def test_a_row_that_is_read_whole_has_no_column_to_spare():
    row = Row("row 1", {"text": "a", "mood": "good"})
    assert dict(row) == {"text": "a", "mood": "good"}
    assert row.used == {"text", "mood"}


def test_any_value_is_shown_in_a_few_dozen_characters():
    assert brief("a\0") == r"'a\x00'"
    assert len(brief("a" * 1000)) == 60
    assert brief([1, 2, 3]) == "[1, 2, ...]"
