"""One mistake a time, at a place that is drawn."""

import random

import pytest

from bench.house.planted import modules, plant
from gradient_check.tests.present import present


def planted(source):
    """All mistakes that some draws plant, without white space."""
    found = (plant(source, random.Random(seed)) for seed in range(40))
    return {"".join(present(each)[0].split()) for each in found}


@pytest.mark.parametrize(
    ("source", "mistakes"),
    [
        ("a = b - 1", {"a=b+1"}),
        ("a = b if c else d", {"a=bifnotcelsed"}),
        ("go()", {"pass"}),
        ("def f():\n  if a:\n    return b", {"deff():ifnota:returnb", "deff():ifa:return"}),
    ],
)
def test_each_kind_of_mistake_is_planted_alone(source, mistakes):
    assert planted(source) == mistakes


@pytest.mark.parametrize("source", ["a = 1", "log.info('x')", "def f():\n  return None"])
def test_some_sources_have_no_place_for_one(source):
    assert plant(source, random.Random(0)) is None


def test_modules_with_a_test_of_their_path_are_drawn_from():
    names = [str(path) for path in modules()]
    assert "cog_adapt/server/service/slots.py" in names
    assert "cog_adapt/__main__.py" not in names
