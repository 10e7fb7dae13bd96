"""What the document says of adapters is what is answered and taken."""

import json

import jsonschema
import pytest

from cog_adapt.server.api.adapter_shapes import CHANGES, Adapter, AdapterChanges, adapter_refusals
from cog_adapt.server.api.responses import STATUSES
from tests.cog_adapt.server.kept_adapters import SLOTS, KeptAdapters

SCHEMA = AdapterChanges.model_json_schema()


def test_an_adapter_of_a_predictor_is_one_of_the_document():
    made = KeptAdapters().put("ada", b"x", labels=["a"], score_after=0.5, more="of its own")
    known = {name: value for name, value in made.items() if value is not None}
    jsonschema.validate(known, Adapter.model_json_schema())
    assert Adapter(**made).score_after == 0.5


@pytest.mark.parametrize(
    ("changes", "is_one"),
    [
        ({}, True),
        ({"name": "a", "notes": "b", "pinned": True, "shared": ["*"]}, True),
        ({"colour": "red"}, False),
        ({"pinned": "yes"}, False),
    ],
)
def test_changes_are_of_what_can_be_changed(changes, is_one):
    assert jsonschema.Draft4Validator(SCHEMA).is_valid(changes) is is_one
    assert SCHEMA["properties"].keys() == {*SLOTS, "owner"}
    assert json.dumps(SCHEMA) in json.dumps(CHANGES)


def test_every_refusal_has_a_status_of_the_table():
    described = adapter_refusals(400, 403, 404, 413, 415, 429, 500, 503, 504, 507)
    assert described.keys() <= set(STATUSES.values())
