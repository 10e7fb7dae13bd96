"""The mistakes that `make test` must see can still be planted; `make mutants` plants them."""

import pytest

from bench.house.mutants import MUTANTS, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_a_mistake_has_its_place(mutant):
    if not (ROOT / mutant.path).exists():
        pytest.skip("the shipped task is not here")
    assert (ROOT / mutant.path).read_text().count(mutant.old) == 1


def test_there_are_twenty_at_least():
    assert len({mutant.what for mutant in MUTANTS}) == len(MUTANTS) >= 20


def test_a_mistake_without_a_place_is_refused(tmp_path):
    (tmp_path / "a.py").write_text("x = 1\nx = 1\n")
    with pytest.raises(ValueError, match="2 times, not once"):
        Mutant("twice", "a.py", "x = 1", "x = 2").plant(tmp_path)
    Mutant("once", "a.py", "x = 1\nx", "y").plant(tmp_path)
    assert (tmp_path / "a.py").read_text() == "y = 1\n"
