import re
from typing import get_args

import msgspec
import pytest

from cog_adapt.server.api import shapes
from cog_adapt.server.api.responses import record_body
from cog_adapt.server.api.shapes import DURATION, ID_PATTERN, refusals
from cog_adapt.server.records.record import DeliveryState, RecordStatus
from gradient_check.tests.present import present
from tests.cog_adapt.server.records.home import make_record


@pytest.mark.parametrize("text", ["a", "7", "A.b_c~d-e", "x" * 128])
def test_an_id_is_of_plain_letters(text):
    assert re.search(ID_PATTERN, text)


@pytest.mark.parametrize("text", ["", ".a", "-a", "a b", "a/b", "ö", "x" * 129])
def test_other_texts_are_no_ids(text):
    assert not re.search(ID_PATTERN, text)


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("5", "5", None),
        ("30s", "30", "s"),
        ("1.125h", "1.125", "h"),
        ("0.001ms", "0.001", "ms"),
        ("0.5m", "0.5", "m"),
        ("999999s", "999999", "s"),
    ],
)
def test_a_duration_is_a_number_and_a_unit(text, number, unit):
    assert present(re.fullmatch(DURATION, text)).groups() == (number, unit)


@pytest.mark.parametrize(
    "text", ["", "0", "0.0", "0.000s", "1000000", "01s", "1.1234s", "-1", "1d", ".5", "5 s", "1.s"]
)
def test_other_texts_are_no_durations(text):
    assert not re.fullmatch(DURATION, text)


def test_what_is_shown_of_a_record_is_what_a_run_is_described_by():
    shown = record_body(make_record(1))
    run = shapes.Run.model_validate(msgspec.json.decode(msgspec.json.encode(shown)))
    assert run.id == "r1"
    full = make_record(1, **dict.fromkeys(("error", "logs"), "x"))
    assert {*record_body(full), "queue_position"} <= set(shapes.Run.model_fields)
    assert get_args(shapes.Status) == get_args(RecordStatus)


def test_the_states_of_a_delivery_are_those_that_are_described():
    state = shapes.Delivery.model_fields["state"].annotation
    assert get_args(state) == get_args(DeliveryState)


def test_a_refusal_is_an_error_with_its_reason():
    assert refusals(404, 503) == {
        404: {"model": shapes.Error, "description": "There is none"},
        503: {
            "model": shapes.Error,
            "description": "Not ready, or the records cannot be used",
        },
    }
    with pytest.raises(KeyError):
        refusals(418)
