"""From what run() returns to JSON."""

import dataclasses
import datetime
import decimal
import enum
import io
import json

import cog
import numpy as np
import pydantic
import pytest

from cog_adapt.server.worker.outputs import NumberError, is_many, to_json
from cog_adapt.server.worker.uploads import DataUrls


class Colour(enum.Enum):
    RED = "red"


class Settings(pydantic.BaseModel):
    size: int = 1
    nested: dict[str, cog.Path] = {}
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)


@dataclasses.dataclass
class Point:
    x: float
    colour: Colour


NOON = datetime.datetime(2026, 1, 2, 12)


def encode(value):
    return json.loads(to_json(value, DataUrls()))


@pytest.mark.parametrize("value", [[], [1], (1,), iter([1]), (n for n in [1]), map(str, [1])])
def test_these_are_many_outputs(value):
    assert is_many(value)


@pytest.mark.parametrize(
    "value", [None, "ab", {1}, {1: 2}, np.array([1]), range(2), io.BytesIO(b"a\nb"), io.StringIO()]
)
def test_these_are_one_output(value):
    assert not is_many(value)


class Text(str):
    pass


class Whole(int):
    pass


class Ratio(float):
    def __float__(self):
        return 0.25


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Text("a"), "a"),
        (Whole(3), 3),
        (Ratio(0.25), 0.25),
        ([Text("a"), Whole(1)], ["a", 1]),
        (frozenset([1]), [1]),
        ([1, 2.0, "x", True, None], [1, 2.0, "x", True, None]),
        ({1.5: [(1,), {2}]}, {"1.5": [[1], [2]]}),
        ({1: 2, None: 3, False: 4}, {"1": 2, "null": 3, "false": 4}),
        ({"g": (n for n in [1]), "i": 2**70}, {"g": [1], "i": 2**70}),
        ((NOON, Point(1.5, Colour.RED)), ["2026-01-02T12:00:00", {"x": 1.5, "colour": "red"}]),
        (np.array(["a"]), ["a"]),
        ({True: {"b": [Colour.RED]}}, {"true": {"b": ["red"]}}),
    ],
)
def test_values_of_subclasses_and_nested_ones_are_plain_too(value, plain):
    assert encode(value) == plain


def test_a_class_of_fields_is_no_output():
    with pytest.raises(TypeError, match="type is not JSON serializable"):
        encode(Point)


class Extra(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    given: int = 1

    @pydantic.computed_field
    def twice(self) -> int:
        return self.given * 2


def test_all_fields_of_a_model_are_there():
    assert encode(Extra.model_validate({"other": 5})) == {"given": 1, "twice": 2, "other": 5}


def test_a_key_that_json_lacks_is_refused():
    with pytest.raises(TypeError, match="keys must be str, int, float, bool or None, not tuple"):
        encode({(1, 2): 3})


def test_keys_are_sorted():
    assert to_json({"b": {"d": 1, "c": 2}, "a": 1}, DataUrls()) == b'{"a":1,"b":{"c":2,"d":1}}'


@pytest.mark.parametrize(
    "value",
    [
        NOON.date(),
        decimal.Decimal(1),
        range(2),
        {"nested": [b"x"]},
    ],
)
def test_what_cog_does_not_take_is_refused(value):
    with pytest.raises(TypeError, match="Object of type .* is not JSON serializable"):
        encode(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (float("-inf"), "-inf"),
        ([1.0, float("inf")], "inf"),
        ({"a": -np.inf}, "-inf"),
        (np.array([np.nan]), "nan"),
        ((np.nan, "x"), "nan"),
    ],
)
def test_a_number_that_json_lacks_is_refused_and_named(value, shown):
    with pytest.raises(NumberError) as caught:
        encode(value)
    assert str(caught.value) == f"{shown} is no number of JSON; return a finite one, or None"


def test_half_a_character_is_refused():
    with pytest.raises(UnicodeEncodeError):
        encode("\ud800")
