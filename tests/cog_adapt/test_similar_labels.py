"""A label that may be a misspelling of another is pointed out, with what may be meant."""

import json
import re

import pytest

from cog_adapt.runner.data.examples import parse_examples


def warnings_of(**counts):
    labels = [label for label, count in counts.items() for _ in range(count)]
    rows = [{"text": f"text {n}", "label": label} for n, label in enumerate(labels)]
    return parse_examples(json.dumps(rows)).warnings


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("refund", "Refund"),
        ("access", "acces"),
        ("access", "accesss"),
        ("access", "axcess"),
        ("access", "acecss"),
        ("account-locked", "account locked"),
        ("account-locked", "account_Locked"),
    ],
)
def test_a_misspelled_label_is_told_with_what_may_be_meant(right, wrong):
    (warning,) = warnings_of(**{right: 8, wrong: 1, "another": 8})
    assert warning == f"similar labels: '{wrong}' (1) may be meant as '{right}' (8)"


@pytest.mark.parametrize(
    "counts",
    [
        {"group1": 8, "group2": 1},
        {"group1": 8, "group12": 1},
        {"cat": 8, "car": 1},
        {"cart": 8, "card": 7},
        {"positive": 8, "negative": 1},
        {"access": 8, "ac": 1},
        {"a": 1, "b": 1},
    ],
)
def test_labels_that_are_meant_are_left_alone(counts):
    assert warnings_of(**counts) == ()


def test_names_that_differ_in_case_alone_are_told_however_often_they_are_used():
    (warning,) = warnings_of(refund=5, Refund=5)
    assert warning.endswith("(5) may be meant as 'refund' (5)")


def test_few_of_many_are_shown():
    names = {f"alpha{'y' * n}end": 8 for n in range(15)}
    (warning,) = warnings_of(**names, **{f"{name}s": 1 for name in names})
    assert re.search(r"and \d+ more$", warning)
    assert len(warning) < 2_000


def test_long_targets_are_not_compared():
    """A hundred targets of 100,000 characters take minutes to compare, each with each."""
    assert warnings_of(**{"w" * 200: 8, "W" * 200: 1}) != ()
    assert warnings_of(**{"w" * 201: 8, "W" * 201: 1}) == ()


def test_targets_that_are_no_labels_are_not_compared():
    rows = [{"text": f"t{n}", "label": f"a long answer {n}"} for n in range(300)]
    assert parse_examples(json.dumps(rows)).warnings == ()
