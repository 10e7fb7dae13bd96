from typing import get_args

import msgspec

from cog_adapt.server.api import shapes
from cog_adapt.server.api.responses import record_body
from cog_adapt.server.records.record import DeliveryState, RecordStatus
from tests.cog_adapt.server.records.home import make_record


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
