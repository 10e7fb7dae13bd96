"""The tests that the table of the first hour names are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "results" / "first-hour-points.md").read_text()
ROWS = re.findall(r"^\| (?!---|what was met)(.+) \| ([^|]+) \|$", PAGE, re.MULTILINE)


def place_of(name):
    is_here = name.startswith(("examples/", "page/src/")) or name == "bench/first_hour.py"
    return (ROOT if is_here else ROOT / "tests" / "cog_adapt") / name


@pytest.mark.parametrize("tests", [tests for _, tests in ROWS])
def test_each_point_has_a_test_that_is_there(tests):
    found = re.findall(r"`([\w/.-]+)(?:::(\w+))?`", tests)
    assert found
    for file, function in found:
        assert f"def {function}(" in f"{place_of(file).read_text()}def ("


def test_the_table_is_whole():
    assert len(ROWS) == PAGE.count("\n| ") - 1
