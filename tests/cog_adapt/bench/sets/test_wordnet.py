"""Groups of glosses: all below a hypernym, instances too, and none that belongs to two groups."""

import pytest

from bench import data
from bench.sets import wordnet

LINES = """\
  1 This is a licence.
00000001 03 n 01 entity 0 000 | that which exists
00000010 05 n 01 bird 0 001 @ 00000001 n 0000 | a flyer
00000011 05 n 02 owl 0 night_bird 0 001 @ 00000010 n 0000 | a bird of the night; "owls hoot"
00000012 05 n 01 Archimedes 0 002 @i 00000011 n 0000 ~ 00000013 n 0000 | a wizard's owl
00000013 05 n 01 oddity 0 002 @ 00000010 n 0000 @ 00000020 n 0000 | a bird and a snake
00000014 05 n 01 twin 0 001 @ 00000010 n 0000 | told twice
00000020 05 n 01 snake 0 001 @ 00000001 n 0000 | a crawler
00000021 05 n 01 adder 0 001 @ 00000020 n 0000 | a venomous snake
00000022 05 n 01 twin 0 001 @ 00000020 n 0000 | told twice
"""


@pytest.fixture(autouse=True)
def nouns(tmp_path, monkeypatch):
    path = tmp_path / "data.noun"
    path.write_text(LINES, "utf-8")
    monkeypatch.setattr(data, "nouns", lambda: path)
    monkeypatch.setattr(wordnet, "GROUPS", {"bird": "00000010", "snake": "00000020"})
    wordnet.read_synsets.cache_clear()
    yield
    wordnet.read_synsets.cache_clear()


def test_a_group_holds_what_lies_below_one_hypernym_alone():
    assert wordnet.groups() == {
        "bird": ["a bird of the night", "a wizard's owl"],
        "snake": ["a venomous snake"],
    }
