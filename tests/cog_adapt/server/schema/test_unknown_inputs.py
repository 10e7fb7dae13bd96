"""What is said of inputs that the model does not have."""

import time

import pytest

from cog_adapt.server.schema.unknown_inputs import describe_unknown, find_unknown

KNOWN = ("text", "learning_rate", "steps")
ALLOWED = "is no input; allowed: text, learning_rate, steps."


def test_only_names_that_are_not_known_are_told():
    assert find_unknown(["text", "step"], KNOWN) == [
        ("step", f"step {ALLOWED} Did you mean steps?")
    ]
    assert find_unknown(KNOWN, KNOWN) == find_unknown([], KNOWN) == []


@pytest.mark.parametrize(
    ("name", "meant"), [("txet", "text"), ("learningrate", "learning_rate"), ("Steps", "steps")]
)
def test_the_nearest_known_name_is_proposed(name, meant):
    assert describe_unknown(name, KNOWN) == f"{name} {ALLOWED} Did you mean {meant}?"


def test_without_a_near_one_the_allowed_ones_are_named():
    assert describe_unknown("zzz", KNOWN) == f"zzz {ALLOWED}"
    assert describe_unknown("zzz", ()) == "zzz is no input; allowed: none."


def test_a_caller_can_make_neither_work_nor_a_long_answer():
    before = time.monotonic()
    names = ["x" * 10**6, *(f"step{number}" for number in range(10**5))]
    found = find_unknown(names, KNOWN)
    assert time.monotonic() - before < 2.0
    assert len(found) == 20
    assert found[0] == ("x" * 128 + "…", "x" * 128 + f"… {ALLOWED}")
