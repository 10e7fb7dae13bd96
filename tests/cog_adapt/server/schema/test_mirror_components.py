import re

import jsonschema
import pytest

from cog_adapt.server.schema.document import PREDICTIONS, TRAININGS
from cog_adapt.server.schema.mirror_components import (
    COMPONENTS,
    DURATION,
    ID_PATTERN,
    STREAM,
    id_parameter,
    post_component,
    put_component,
    request_components,
)
from tests.cog_adapt.server.schema.golden import read_golden


def test_all_components_say_what_clients_are_generated_from():
    bodies = request_components(PREDICTIONS, needs_input=True)
    bodies |= request_components(TRAININGS, needs_input=False)
    assert COMPONENTS | bodies == read_golden("mirror_components")


@pytest.mark.parametrize("component", COMPONENTS.values(), ids=list(COMPONENTS))
def test_every_component_is_a_valid_schema_without_missing_properties(component):
    jsonschema.Draft4Validator.check_schema(component)
    assert set(component.get("required", ())) <= set(component.get("properties", ()))


def test_no_component_can_be_named_like_an_input():
    names = [*COMPONENTS, post_component(PREDICTIONS), put_component(TRAININGS)]
    assert not any(name.isidentifier() for name in names)
    assert names[-2:] == ["Mirror.PredictionRequest", "Mirror.TrainingOfId"]


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
    assert re.fullmatch(DURATION, text).groups() == (number, unit)


@pytest.mark.parametrize(
    "text", ["", "0", "0.0", "0.000s", "1000000", "01s", "1.1234s", "-1", "1d", ".5", "5 s", "1.s"]
)
def test_other_texts_are_no_durations(text):
    assert not re.fullmatch(DURATION, text)


def test_the_id_in_a_path_is_required_and_named_after_its_kind():
    parameter = id_parameter(TRAININGS)
    assert parameter.pop("schema")["pattern"] == ID_PATTERN
    assert parameter == {"name": "training_id", "in": "path", "required": True}


def test_a_body_needs_an_input_where_one_has_no_default():
    for needs_input, required in ((True, ["input"]), (False, None)):
        bodies = request_components(PREDICTIONS, needs_input=needs_input)
        for name in ("Mirror.PredictionRequest", "Mirror.PredictionOfId"):
            assert bodies[name].get("required") == required
            nullable = bodies[name]["properties"]["input"].get("nullable")
            assert nullable is (None if needs_input else True)


def test_only_the_body_of_a_post_has_an_id():
    bodies = request_components(PREDICTIONS, needs_input=True)
    assert "id" in bodies[post_component(PREDICTIONS)]["properties"]
    assert "id" not in bodies[put_component(PREDICTIONS)]["properties"]


def test_a_stream_is_of_events():
    schema = {"$ref": "#/components/schemas/Mirror.Event"}
    assert {"content": {"text/event-stream": {"schema": schema}}} == STREAM
