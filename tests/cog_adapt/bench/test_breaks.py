"""The mends of the red team's findings can still be broken; `bench.attack.breaks` breaks them."""

import pytest

from bench.attack.mends import BREAKS
from bench.house.mutants import ROOT


@pytest.mark.parametrize("each", BREAKS, ids=lambda each: each.what)
def test_a_mend_has_its_place_and_its_tests(each):
    assert (ROOT / each.path).read_text().count(each.old) == 1
    assert (ROOT / each.tests).exists()


def test_no_break_stands_twice():
    assert len({(each.path, each.new, each.old) for each in BREAKS}) == len(BREAKS)
