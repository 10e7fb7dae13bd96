"""However much is wrong, little of it is looked at and said, and each place is the caller's."""

import time
from typing import Any

import pytest

from cog_adapt.server.schema.long_lists import ShortLists, shorten_lists
from cog_adapt.server.schema.problems import MOST_PROBLEMS
from cog_adapt.server.schema.validation import InputValidator

ITEMS = 1_000_000


def document(**properties):
    return {"components": {"schemas": {"Input": {"type": "object", "properties": properties}}}}


TEXTS = {"type": "array", "items": {"type": "string"}}
FILES = {"type": "array", "items": {"type": "string", "format": "uri"}}


@pytest.fixture(scope="module")
def validator():
    described = document(texts=TEXTS, more=TEXTS, files=FILES, count={"type": "integer"})
    return InputValidator(described, "Input", 10)


@pytest.mark.parametrize(
    "inputs",
    [
        {"texts": [1] * ITEMS},
        {"texts": [[1]] * ITEMS, "more": [{}] * ITEMS, "files": [None] * ITEMS},
        {"count": ["a"] * ITEMS},
        {"files": ["x"] * ITEMS},
        {"texts": ["far too long"] * ITEMS},
        {str(number): 1 for number in range(ITEMS // 10)},
        {"x" * ITEMS: 1},
    ],
)
def test_a_million_mistakes_take_no_more_time_and_words_than_a_few(validator, inputs):
    validator.problems({"count": "x"})
    begun = time.process_time()
    problems = validator.problems(inputs)
    assert time.process_time() - begun < 6  # an error for each item: 14 s
    assert 0 < len(problems) <= MOST_PROBLEMS + 1
    assert sum(len(problem.msg) + len(str(problem.loc)) for problem in problems) < 200_000


def test_items_keep_their_places_and_the_rest_is_counted(validator):
    texts: list[Any] = ["a"] * 5_000
    for place in (7, 2_999, 4_999):
        texts[place] = place
    found = validator.problems({"texts": texts})
    assert [problem.loc[2] for problem in found] == ["texts/7", "texts/2999", "texts/4999"]
    assert found[1].msg == '2999 is not of type "string"'
    last = validator.problems({"texts": [1] * 5_000})[-1]
    assert last.loc == ("body", "input")
    assert "the first 100 problems are listed; 4,900 items of lists were not looked at" in last.msg


def test_the_longest_list_that_is_said_of_each_item_has_a_hundred(validator):
    assert len(validator.problems({"texts": [1] * MOST_PROBLEMS})) == MOST_PROBLEMS
    assert len(validator.problems({"texts": [1] * (MOST_PROBLEMS + 1)})) == MOST_PROBLEMS + 1


def test_only_long_lists_are_shortened_and_only_where_a_list_may_be():
    inputs = {"short": [1], "no list": [1] * 200, "text": "a" * 200, "long": [1] * 200}
    short = shorten_lists(inputs, lambda values: values in ({"long": []}, {"long": [1]}))
    assert short.inputs == inputs | {"long": []}
    assert short == ShortLists(short.inputs, {"long": []}, 0)


def test_a_place_goes_on_into_an_item():
    assert ShortLists({}, {"a": [5, 9]}, 0).place(["a", 1, "b"]) == ["a", 9, "b"]
    assert ShortLists({}, {"a": [5, 9]}, 0).place(["b", 1]) == ["b", 1]
