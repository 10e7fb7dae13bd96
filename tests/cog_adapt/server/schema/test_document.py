from typing import Any

import pytest

from cog_adapt.server.schema.document import (
    PREDICTIONS,
    TRAININGS,
    document,
    endpoint_components,
    endpoint_paths,
    reference,
)
from tests.cog_adapt.server.schema.golden import read_golden

INPUTS, OUTPUT = {"type": "object"}, {"title": "Output"}


def test_the_whole_document_is_what_cog_writes():
    paths = endpoint_paths(PREDICTIONS, streaming=True)
    paths |= endpoint_paths(TRAININGS, streaming=False)
    components = endpoint_components(PREDICTIONS, INPUTS, OUTPUT)
    components |= endpoint_components(TRAININGS, INPUTS, OUTPUT)
    assert document("1.2.3", paths, components) == read_golden("document")


def test_the_names_of_an_endpoint_follow_from_its_words():
    names = [(each.input, each.output, each.request, each.response) for each in
             (PREDICTIONS, TRAININGS)]  # fmt: skip
    assert names == [
        ("Input", "Output", "PredictionRequest", "PredictionResponse"),
        ("TrainingInput", "TrainingOutput", "TrainingRequest", "TrainingResponse"),
    ]
    frozen: Any = PREDICTIONS
    with pytest.raises(AttributeError):
        frozen.verb = "run"


def test_paths_come_in_cogs_order():
    paths = endpoint_paths(PREDICTIONS, streaming=False)
    assert list(paths) == ["/predictions", "/predictions/{prediction_id}/cancel"]
    assert list(document("1", paths, {})["paths"]) == ["/", "/health-check", *paths]


def test_only_a_streaming_endpoint_says_so():
    for streaming, said in ((True, True), (False, None)):
        post = endpoint_paths(PREDICTIONS, streaming=streaming)["/predictions"]["post"]
        assert post.get("x-cog-streaming") is said


def test_the_inputs_of_a_function_get_their_title_and_keep_their_own():
    components = endpoint_components(PREDICTIONS, {"required": ["a"]}, OUTPUT)
    assert components["Input"] == {"title": "Input", "required": ["a"]}
    assert components["Output"] is OUTPUT


def test_a_reference_leads_to_a_component():
    assert reference("Status") == {"$ref": "#/components/schemas/Status"}


def test_what_every_server_has_is_added_and_cannot_be_replaced():
    schemas = document("1", {}, {"Status": {}, "Mine": {}})["components"]["schemas"]
    assert list(schemas) == ["Status", "Mine", "HTTPValidationError", "ValidationError"]
    assert schemas["Status"]["enum"][0] == "starting"
