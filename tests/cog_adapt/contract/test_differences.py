"""The table of differences is what docs say and what the tests use."""

import re
from pathlib import Path

from tests.cog_adapt.contract.differences import DIFFERENCES, document

REPOSITORY = Path(__file__).parents[3]


def test_the_page_is_made_from_the_table():
    assert (REPOSITORY / "docs" / "cog-differences.md").read_text() == document()


def test_every_row_is_held_by_a_test():
    sources = [path.read_text() for path in Path(__file__).parent.glob("test_*.py")]
    used = set(re.findall(r'because="([a-z0-9-]+)"', "\n".join(sources)))
    assert used == {row.id for row in DIFFERENCES}
