"""Section 9: the document at /openapi.json."""

import json

import pytest
from jsonschema_rs import Draft4Validator

from tests.cog_adapt.contract.servers import Server


def component(server: Server, name: str) -> dict:
    return server.get("/openapi.json").json()["components"]["schemas"][name]


def cogs_paths(server: Server) -> dict:
    return server.get("/openapi.json").json()["paths"]


def test_head_of_the_document(actions):
    document = actions.get("/openapi.json").json()
    assert document["openapi"] == "3.0.2"
    assert document["info"] == {"title": "Cog", "version": "0.23.1"}


def test_paths(actions):
    paths = cogs_paths(actions)
    assert {"/", "/health-check", "/predictions"} <= paths.keys()
    assert "/predictions/{prediction_id}/cancel" in paths
    assert "/trainings" not in paths or actions.flavour == "mirror"
    if actions.flavour != "mirror":
        assert "/shutdown" not in paths
        assert len(paths) == 4


def test_paths_of_trainings(trainer, both):
    for server in (trainer, both):
        assert {"/trainings", "/trainings/{training_id}/cancel"} <= cogs_paths(server).keys()


def test_streaming_is_marked(streaming, iterating):
    assert cogs_paths(streaming)["/predictions"]["post"]["x-cog-streaming"] is True
    assert "x-cog-streaming" not in cogs_paths(iterating)["/predictions"]["post"]


def test_components(actions):
    names = actions.get("/openapi.json").json()["components"]["schemas"].keys()
    assert names >= {
        "Input",
        "Output",
        "PredictionRequest",
        "PredictionResponse",
        "Status",
        "HTTPValidationError",
        "ValidationError",
    }


def test_components_of_trainings(trainer):
    names = trainer.get("/openapi.json").json()["components"]["schemas"].keys()
    assert names >= {"TrainingInput", "TrainingOutput", "TrainingRequest", "TrainingResponse"}


@pytest.mark.parametrize(
    ("name", "schema"),
    [
        ("s", {"type": "string", "title": "S", "x-order": 0}),
        ("n", {"type": "integer", "title": "N", "x-order": 1}),
        (
            "i",
            {
                "type": "integer",
                "title": "I",
                "x-order": 2,
                "default": 1,
                "minimum": 0,
                "maximum": 10,
                "description": "a whole number",
            },
        ),
        (
            "f",
            {
                "type": "number",
                "title": "F",
                "x-order": 3,
                "default": 0.5,
                "minimum": 0.0,
                "maximum": 1.0,
            },
        ),
        ("b", {"type": "boolean", "title": "B", "x-order": 4, "default": False}),
        (
            "short",
            {
                "type": "string",
                "title": "Short",
                "x-order": 5,
                "default": "ab",
                "minLength": 2,
                "maxLength": 4,
            },
        ),
        (
            "pattern",
            {
                "type": "string",
                "title": "Pattern",
                "x-order": 6,
                "default": "a1",
                "pattern": "^[a-z][0-9]$",
            },
        ),
        (
            "choice",
            {
                "allOf": [{"$ref": "#/components/schemas/choice"}],
                "x-order": 7,
                "default": "red",
            },
        ),
        (
            "tags",
            {
                "type": "array",
                "items": {"type": "string"},
                "title": "Tags",
                "x-order": 9,
                "default": ["x"],
            },
        ),
        (
            "maybe_number",
            {
                "type": "integer",
                "title": "Maybe Number",
                "x-order": 13,
                "default": None,
                "nullable": True,
            },
        ),
        ("mapping", {"type": "object", "title": "Mapping", "x-order": 15, "default": {}}),
        (
            "either",
            {
                "anyOf": [{"type": "string"}, {"type": "integer"}],
                "title": "Either",
                "x-order": 16,
                "default": "e",
            },
        ),
        (
            "old",
            {
                "type": "string",
                "title": "Old",
                "x-order": 17,
                "default": "o",
                "deprecated": True,
            },
        ),
        (
            "path",
            {
                "type": "string",
                "format": "uri",
                "title": "Path",
                "x-order": 18,
                "default": None,
                "nullable": True,
            },
        ),
        (
            "paths",
            {
                "type": "array",
                "items": {"type": "string", "format": "uri"},
                "title": "Paths",
                "x-order": 20,
                "default": [],
            },
        ),
    ],
)
def test_an_input(inputs, name, schema):
    assert component(inputs, "Input")["properties"][name] == schema


def test_a_secret(inputs):
    schema = component(inputs, "Input")["properties"]["secret"]
    assert (schema["type"], schema["format"]) == ("string", "password")
    assert schema["writeOnly"] is True
    assert schema["x-cog-secret"] is True


def test_choices(inputs):
    assert component(inputs, "choice") == {
        "title": "choice",
        "description": "An enumeration.",
        "enum": ["red", "green"],
        "type": "string",
    }
    assert component(inputs, "number_choice")["enum"] == [1, 2]


def test_required_inputs(inputs, actions):
    assert component(inputs, "Input")["required"] == ["s", "n"]
    assert "required" not in component(actions, "Input")


def test_outputs(streaming, iterating, several):
    assert component(streaming, "Output") == {
        "title": "Output",
        "type": "array",
        "items": {"type": "string"},
        "x-cog-array-type": "iterator",
        "x-cog-array-display": "concatenate",
    }
    assert component(iterating, "Output") == {
        "title": "Output",
        "type": "array",
        "items": {"type": "string", "format": "uri"},
        "x-cog-array-type": "iterator",
    }
    assert component(several, "Output")["x-cog-array-display"] == "concatenate"


def test_the_output_of_a_training(trainer):
    schema = component(trainer, "TrainingOutput")
    assert schema["properties"]["weights"]["format"] == "uri"


def test_the_response_names_its_fields(actions):
    fields = component(actions, "PredictionResponse")["properties"].keys()
    assert fields == {
        "input",
        "output",
        "id",
        "version",
        "created_at",
        "started_at",
        "completed_at",
        "status",
        "error",
        "logs",
        "metrics",
    }


def test_statuses(actions):
    assert component(actions, "Status")["enum"] == [
        "starting",
        "processing",
        "succeeded",
        "canceled",
        "failed",
    ]


def test_the_inputs_of_the_document_are_what_is_checked(inputs):
    """Its component by itself accepts what the server accepts."""
    document = inputs.get("/openapi.json").json()
    schema = {"$ref": "#/components/schemas/Input", "components": document["components"]}
    schema = json.loads(json.dumps(schema))
    validator = Draft4Validator({"allOf": [{"$ref": schema.pop("$ref")}], **schema})
    for value in ({"s": "x", "n": 1}, {"s": "x", "n": 1, "i": 11}, {"s": 5, "n": 1}, {}):
        status = inputs.post("/predictions", {"input": value}).status_code
        assert validator.is_valid(value) == (status == 200)
