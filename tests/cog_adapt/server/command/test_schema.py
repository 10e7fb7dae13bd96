"""What an OpenAPI document says about what is to be run."""

import pytest

from cog_adapt.server.command.schema import InputSchema
from cog_adapt.server.errors import InputError
from cog_adapt.server.schema.openapi import openapi_schema


def predict(zeta: str, alpha: int = 1, steps: int = 4) -> str:
    return zeta


def train(size: int) -> str:
    return ""


DOCUMENT = openapi_schema(predict, train)


def test_inputs_keep_the_order_of_the_signature():
    schema = InputSchema(DOCUMENT, "predict")
    assert list(schema.properties) == ["zeta", "alpha", "steps"]
    assert schema.required == ("zeta",)
    assert schema.input_name == "Input"
    assert schema.properties["alpha"]["default"] == 1
    assert set(schema.components) == set(DOCUMENT["components"]["schemas"])


def test_a_training_has_inputs_of_its_own():
    schema = InputSchema(DOCUMENT, "train")
    assert (list(schema.properties), schema.input_name) == (["size"], "TrainingInput")


def document(**components):
    return {"components": {"schemas": components}, "paths": {}}


@pytest.mark.parametrize(
    ("kind", "other", "reason"),
    [
        ("predict", "TrainingInput", "the server has no predictor; "),
        ("train", "Input", "the server has no training function; "),
    ],
)
def test_a_server_without_that_kind_is_refused(kind, other, reason):
    with pytest.raises(InputError) as caught:
        InputSchema(document(**{other: {}}), kind)
    assert str(caught.value) == f"{reason}name another with --url, or set it."


def test_inputs_without_an_order_or_any_at_all():
    properties = {"b": {}, "a": {"x-order": 1}, "c": {}}
    schema = InputSchema(document(Input={"properties": properties}), "predict")
    assert list(schema.properties) == ["b", "c", "a"]
    assert schema.required == ()
    assert InputSchema(document(Input={}), "predict").properties == {}


@pytest.mark.parametrize(("display", "is_text"), [("concatenate", True), ("other", False)])
def test_a_text_in_pieces_is_marked_in_the_output(display, is_text):
    output = {"x-cog-array-type": "iterator", "x-cog-array-display": display}
    assert InputSchema(document(Input={}, Output=output), "predict").is_text is is_text
    both = document(Input={}, TrainingInput={}, Output=output)
    assert InputSchema(both, "train").is_text is False
    assert InputSchema(document(Input={}), "predict").is_text is False


@pytest.mark.parametrize(
    ("inputs", "steps"), [({}, 4), ({"steps": 9}, 9), ({"steps": "many"}, None), ({"alpha": 1}, 4)]
)
def test_the_steps_are_given_or_the_default(inputs, steps):
    assert InputSchema(DOCUMENT, "predict").steps(inputs) == steps


def test_what_takes_no_steps_has_none():
    assert InputSchema(DOCUMENT, "train").steps({}) is None
