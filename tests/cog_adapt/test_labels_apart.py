"""Two labels that a reader cannot tell apart are refused by naming both, at every door."""

import pytest

from cog_adapt.runner.adaptation.first_tensors import labels_to_learn
from cog_adapt.runner.data.examples import Example, ExampleSet
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.labels import settle_labels
from tests.cog_adapt.models import Letters

SAME = [
    ("a", " a"),
    ("a b", "a  b"),
    ("a b", "a\u00a0b"),
    ("a", "a\n"),
    ("caf\u00e9", "cafe\u0301"),
    ("a", "a\u200b"),
    ("a", "\ufeffa"),
    ("ab", "a\u202eb"),
]
APART = [("a", "A"), ("m2", "m\u00b2"), ("ss", "\u00df"), ("a", "\u0430"), ("a b", "ab")]
WORDS = "look the same"


def examples_of(labels):
    return [Example("abc", label) for label in labels]


def from_labels(first, second):
    return settle_labels(Letters(), Request(("a",), (first, second)), ExampleSet([]), None)


def from_examples(first, second):
    examples = ExampleSet(examples_of((first, second)))
    return settle_labels(Letters(), Request(("a",)), examples, None)


def from_python(first, second):
    return labels_to_learn(Letters(), examples_of((first, second)), None)


def from_an_adapter(first, second):
    begin = Adapter({}, (first,), "head", "b" * 16)
    examples = ExampleSet(examples_of([second]))
    return settle_labels(Letters(), Request(("a",)), examples, begin) and labels_to_learn(
        Letters(), examples.examples, begin
    )


WAYS = [from_labels, from_examples, from_python, from_an_adapter]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("first", "second"), SAME)
def test_labels_that_look_the_same_are_refused_by_naming_both(way, first, second):
    with pytest.raises(InputError, match=WORDS) as refused:
        way(first, second)
    assert ascii(first) in str(refused.value)
    assert ascii(second) in str(refused.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("first", "second"), APART)
def test_labels_that_look_different_stay_as_they_were_sent(way, first, second):
    assert way(first, second) == (first, second)


@pytest.mark.parametrize("label", [" a", "cafe\u0301", "\u200ba"])
def test_a_label_alone_of_its_look_stays_as_it_was_sent(label):
    assert from_examples(label, "other") == (label, "other")


def test_labels_that_are_no_texts_are_left_alone():
    labels: tuple[object, ...] = labels_to_learn(Numbers(), examples_of((1, 1.5)), None)
    assert labels == (1, 1.5)


class Numbers(Letters):
    """Labels that are numbers."""

    def labels(self, examples):
        return tuple(dict.fromkeys(example.target for example in examples))
