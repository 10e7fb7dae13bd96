"""The labels of a request are bounded before a model sees them, and agree with one another."""

import pytest

from cog_adapt.runner.data.examples import Example, ExampleSet
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.labels import check_scores, settle_labels
from tests.cog_adapt.models import Letters

NOTHING = ExampleSet([])


def settle(*labels, examples=NOTHING, **limits):
    task = Letters()
    for name, value in limits.items():
        setattr(task, name, value)
    return settle_labels(task, Request(("a",), labels), examples, None)


def test_as_many_and_as_long_labels_as_the_task_takes_are_settled():
    labels = tuple(f"{number:0200}" for number in range(1_000))
    assert settle(*labels) == labels
    assert settle() == ()


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ([str(number) for number in range(1_001)], "1,001 labels, the limit is 1,000. Give fewer"),
        (["a", "b" * 201], "label 2 has 201 characters; the limit is 200. Shorten it"),
        (["a", " "], "label 2 is ' '. Send a name"),
        (["a", 5], "label 2 is 5. Send a name"),
        (["a", "b", "a"], "label 3, 'a', occurs twice. Send each label once"),
    ],
)
def test_others_are_refused_in_words(labels, reason):
    with pytest.raises(InputError, match=reason):
        settle(*labels)


def test_a_task_has_limits_of_its_own():
    with pytest.raises(InputError, match="3 labels, the limit is 2"):
        settle("a", "b", "c", max_labels=2)


def test_labels_of_examples_are_bounded_too():
    examples = ExampleSet([Example("a", str(number)) for number in range(20)])
    with pytest.raises(InputError, match="20 labels, the limit is 10"):
        settle(examples=examples, max_labels=10)


def test_a_message_shows_ten_of_a_thousand_labels():
    examples = ExampleSet([Example("a", "x"), Example("b", "y")])
    with pytest.raises(
        InputError, match="and 990 more, but `examples` has \\['x', 'y'\\]"
    ) as caught:
        settle(*(f"{number:0200}" for number in range(1_000)), examples=examples)
    assert len(str(caught.value)) < 1_500


@pytest.mark.parametrize(("texts", "labels"), [(2_000, 100), (200, 1_000)])
def test_scores_are_bounded_as_a_whole(texts, labels):
    inputs = ["a"] * texts
    check_scores(Letters(), Request(inputs), ["b"] * labels)
    with pytest.raises(InputError, match="more than 200,000 scores. Send fewer inputs at once"):
        check_scores(Letters(), Request([*inputs, "a"]), ["b"] * labels)
