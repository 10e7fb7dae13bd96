"""What makes two adaptations the same, and what makes them different."""

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.known.adaptation_key import (
    input_digests,
    key_of,
    origin_of,
    rows_of,
    source_digest,
    sum_of,
)
from gradient_check.tests.present import present
from tests.cog_adapt.models import Images, Letters

ROWS = [Example("aa", "low"), Example("ya", "high")]
RECIPE = Recipe("lora", 8)


def whole(rows=ROWS, recipe=RECIPE, begin=None, origin="o"):
    key = key_of(rows, recipe, begin, origin)
    return key and key.whole


@pytest.mark.parametrize(
    "other",
    [
        {"rows": ROWS[::-1]},
        {"rows": [*ROWS, ROWS[0]]},
        {"rows": [Example("aa", "low"), Example("ya", "low")]},
        {"recipe": Recipe("lora", 4)},
        {"recipe": Recipe("lora", 8, seed=1)},
        {"recipe": Recipe("lora", 8, stop_after=3)},
        {"begin": "a"},
        {"origin": "p"},
    ],
)
def test_all_that_the_outcome_depends_on_is_in_the_key(other):
    assert len(whole()) == 32
    assert whole() == whole()
    assert whole(**other) != whole()


def test_how_long_it_may_take_is_not_in_the_key():
    assert whole(recipe=Recipe("lora", 8, budget_seconds=3)) == whole()


def test_examples_of_one_recipe_are_a_family():
    one, other = (present(key_of(rows, RECIPE, None, "o")) for rows in (ROWS, ROWS[:1]))
    assert one.family == other.family
    assert one.rows[:1] == other.rows
    assert present(key_of(ROWS, Recipe("lora", 4), None, "o")).family != one.family


@dataclass
class Opaque:
    """Says nothing of its content that could be compared."""


class Picture:
    """Has what PIL's images have."""

    mode, size = "L", (2, 1)

    def __init__(self, content):
        self.tobytes = lambda: content


VALUES = [
    *(1, 1.0, True, "1", None, b"1", [1], [[1]], {"a": 1}, {"a": 2}, {"b": 1}, ["a", 1]),
    *(torch.tensor([1]), torch.tensor([1.0]), torch.tensor([[1]]), np.array([1], "int32")),
    *(Picture(b"ab"), Picture(b"ac")),
]


def test_different_values_have_different_digests():
    digests = [rows_of([Example(value, "x")]) for value in VALUES]
    assert len(set(digests)) == len(VALUES)
    assert None not in digests


def test_names_of_an_object_may_come_in_any_order():
    one, other = ({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert rows_of([Example(one, 0)]) == rows_of([Example(other, 0)])


@pytest.mark.parametrize("value", [Opaque(), {1: 2}, np.array([Opaque()]), {1, 2}])
def test_what_has_no_canonical_form_is_never_taken_for_another(value):
    assert rows_of([Example(value, 0)]) is None
    assert whole([Example(value, 0)]) is None


def test_inputs_have_digests_of_their_own():
    one, other, none = input_digests(["a", "b", Opaque()])
    assert one != other
    assert none is None
    assert input_digests(["a"]) == [one]


def test_the_digest_of_a_set_depends_on_its_order():
    assert sum_of(["a", "b"]) != sum_of(["b", "a"])


def test_a_task_is_known_by_class_code_and_values():
    assert origin_of(Letters(), "b") == origin_of(Letters(), "b")
    assert origin_of(Letters(), "b") != origin_of(Letters(), "c")
    assert origin_of(Letters(), "b") != origin_of(Images(), "b")
    other = Letters()
    other.rank = 2
    assert origin_of(other, "b") != origin_of(Letters(), "b")


@dataclass
class Scale:
    by: float


class Colour(Enum):
    RED, BLUE = "red", "blue"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((1.0, 2.0), (-9.0, 2.0)),
        ([1], [2]),
        ([1], (1,)),
        ({"a": 1}, {"a": 2}),
        ({1: (2,)}, {1: (3,)}),
        ({1, 2}, {1, 3}),
        (Path("a"), Path("b")),
        (Scale(1), Scale(2)),
        (Colour.RED, Colour.BLUE),
        (torch.zeros(2), torch.ones(2)),
        ([object(), 1], [object(), 2]),
    ],
)
def test_a_task_is_known_by_each_of_its_values(one, other):
    tasks = Letters(), Letters(), Letters()
    for task, value in zip(tasks, (one, one, other), strict=True):
        vars(task)["own"] = value
    first, same, another = (origin_of(task, "b") for task in tasks)
    assert first == same != another


def test_parts_of_the_model_do_not_count_and_may_change():
    task = Letters()
    before = origin_of(task, "b")
    for part in (object(), torch.empty(2, device="meta"), torch.eye(2).to_sparse()):
        vars(task)["part"] = part
        assert origin_of(task, "b") == before
    del vars(task)["part"]
    circle: list[object] = [1]
    circle.append(circle)
    vars(task)["own"] = circle
    assert origin_of(task, "b") == origin_of(task, "b") != before


def test_pictures_of_one_shape_and_other_palettes_have_different_digests():
    red, blue = (Image.new("RGB", (2, 2), colour).convert("P") for colour in ("red", "blue"))
    blue.putpalette(blue.getpalette()[::-1])
    numbers = Image.frombytes("P", (2, 2), red.tobytes())
    numbers.putpalette(blue.getpalette())
    assert input_digests([red]) != input_digests([numbers])
    assert input_digests([red]) == input_digests([red.copy()])


def test_a_change_in_the_source_of_a_task_is_another_task(tmp_path, monkeypatch):
    source = tmp_path / "own_task.py"
    monkeypatch.syspath_prepend(str(tmp_path))
    source.write_text("from tests.cog_adapt.models import Letters\nclass Own(Letters): ...\n")
    task = __import__("own_task").Own()
    monkeypatch.delitem(sys.modules, "own_task", raising=False)
    sys.modules["own_task"] = sys.modules.get("own_task") or __import__("own_task")
    before = source_digest(task)
    source.write_text(source.read_text() + "# a comment\n")
    assert source_digest(task) != before
    source.unlink()
    assert source_digest(task) is None
    assert origin_of(task, "b") is None
    assert whole(origin=None) is None
