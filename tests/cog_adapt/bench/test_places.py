"""A reader opens what sounds like the change first, and the rest of a folder by name."""

import re
from pathlib import PurePosixPath

import pytest

from bench.house.places import Change, Found, Modules, document, found_in

TEXTS = {
    "cog_adapt/__init__.py": '"""The package."""\n',
    "cog_adapt/adapters.py": '"""Files of adapters."""\n',
    "cog_adapt/records/__init__.py": '"""The database of predictions."""\n',
    "cog_adapt/records/pages.py": '"""Lists of records, a page at a time."""\n',
    "cog_adapt/records/rows.py": '"""Rows."""\nlimit = min(asked, largest)\n',
}
TREE = Modules({PurePosixPath(path): text for path, text in TEXTS.items()})
ROWS = PurePosixPath("cog_adapt/records/rows.py")


@pytest.mark.parametrize(
    ("subject", "opened"),
    [
        ("A database takes fewer predictions", 1 + 1 + 3),
        ("Something else altogether", 1 + 3 + 3),
        ("Pages of the database", 1 + 1 + 3),
    ],
)
def test_words_of_the_subject_come_first_and_then_names(subject, opened):
    assert TREE.opened(subject, ROWS) == opened


def test_a_place_has_half_of_the_lines_at_least():
    lines = frozenset({"limit = min(asked, largest)", "another line that is gone"})
    assert TREE.place(Change("a1", "Limits", lines)) == ROWS
    assert TREE.place(Change("a1", "Limits", lines | {"and one more that is gone"})) is None


def test_all_changes_with_a_place_in_both_trees_count_and_every_nth_is_listed():
    line = frozenset({"limit = min(asked, largest)"})
    known = [Change(f"a{number}", "Limits", line) for number in range(6)]
    lost = Change("lost", "Gone", frozenset({"another line that is gone"}))
    found = found_in({"old": TREE, "new": TREE}, [lost, *known])
    assert [each.change.commit for each in found] == [f"a{number}" for number in range(6)]
    assert all(type(each) is Found and each.opened == {"old": 7, "new": 7} for each in found)
    text = document(found, {"before": "old", "after": "new"}, 3)
    assert "all 6 commits: before mean 7.0, median 7; after mean 7.0, median 7" in text
    assert re.findall(r"^\| (a\d) ", text, re.MULTILINE) == ["a0", "a2", "a4"]
