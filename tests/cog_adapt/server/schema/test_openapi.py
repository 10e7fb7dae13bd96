from typing import Any

import cog
import jsonschema
import pytest
from cog import Input

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.schema.openapi import openapi_schema


class Predictor(cog.BaseRunner):
    def run(
        self,
        text: str = Input(description="What to classify", min_length=1),
        color: str = Input(default="red", choices=["red", "blue"]),
    ) -> list[str]: ...


class Streams(cog.BaseRunner):
    @cog.streaming
    def run(self, text: str) -> cog.ConcatenateIterator[str]: ...


class TrainOutput(cog.BaseModel):
    weights: cog.Path


def train(steps: int = 3, color: str = Input(choices=["green", "black"])) -> TrainOutput: ...


def resolve(schema: dict[str, Any], *path: str) -> Any:
    for part in path:
        schema = schema[part]
    return schema


def test_the_head_names_cog_and_its_version():
    schema = openapi_schema(Predictor)
    assert schema["openapi"] == "3.0.2"
    assert schema["info"] == {"title": "Cog", "version": cog.__version__}


def test_a_predictor_has_the_paths_of_predictions():
    assert list(openapi_schema(Predictor)["paths"]) == [
        "/",
        "/health-check",
        "/predictions",
        "/predictions/{prediction_id}/cancel",
    ]


def test_training_adds_its_paths():
    assert list(openapi_schema(Predictor, train)["paths"])[4:] == [
        "/trainings",
        "/trainings/{training_id}/cancel",
    ]


def test_training_alone_has_no_predictions():
    schema = openapi_schema(None, train)
    assert "/predictions" not in schema["paths"]
    assert "Input" not in schema["components"]["schemas"]


def test_nothing_to_describe_is_refused():
    with pytest.raises(ConfigError, match="neither"):
        openapi_schema(None)


PREDICTION_COMPONENTS = {"Input", "Output", "PredictionRequest", "PredictionResponse", "color"}
TRAINING_COMPONENTS = {"TrainingInput", "TrainingOutput", "TrainingRequest", "TrainingResponse"}
SHARED_COMPONENTS = {"Status", "HTTPValidationError", "ValidationError"}


def test_the_components_are_those_of_cog():
    predicts = set(openapi_schema(Predictor)["components"]["schemas"])
    assert predicts == PREDICTION_COMPONENTS | SHARED_COMPONENTS
    both = set(openapi_schema(Predictor, train)["components"]["schemas"])
    assert both == predicts | TRAINING_COMPONENTS


def test_inputs_and_outputs_have_their_titles():
    components = openapi_schema(Predictor, train)["components"]["schemas"]
    titles = {
        name: each["title"] for name, each in components.items() if name.endswith(("put", "color"))
    }
    assert titles == {
        "Input": "Input",
        "Output": "Output",
        "TrainingInput": "TrainingInput",
        "TrainingOutput": "Output",
        "color": "color",
    }


def test_inputs_and_outputs_are_those_of_the_functions():
    components = openapi_schema(Predictor, train)["components"]["schemas"]
    assert components["Input"]["required"] == ["text"]
    assert components["Output"] == {"title": "Output", "type": "array", "items": {"type": "string"}}
    assert components["TrainingInput"]["required"] == ["color"]
    assert list(components["TrainingOutput"]["properties"]) == ["weights"]


def test_an_enumeration_that_both_have_stays_with_the_predictor():
    components = openapi_schema(Predictor, train)["components"]["schemas"]
    assert components["color"]["enum"] == ["red", "blue"]


def takes_input(Input: str = cog.Input(default="a", choices=["a", "b"])) -> str: ...
def takes_status(Status: str = cog.Input(default="a", choices=["a", "b"])) -> str: ...
def takes_nothing(Status: str = "a") -> str: ...


def test_choices_cannot_take_the_name_of_a_component():
    for function, name in ((takes_input, "Input"), (takes_status, "Status")):
        with pytest.raises(ConfigError, match=f"'{name}' of {function.__name__} has choices"):
            openapi_schema(function)
    assert openapi_schema(takes_nothing)


def test_requests_and_responses_refer_to_inputs_and_outputs():
    components = openapi_schema(Predictor, train)["components"]["schemas"]
    for prefix, noun in (("", "Prediction"), ("Training", "Training")):
        own = {"$ref": f"#/components/schemas/{prefix}Input"}
        made = {"$ref": f"#/components/schemas/{prefix}Output"}
        assert components[f"{noun}Request"]["properties"]["input"] == own
        assert components[f"{noun}Response"]["properties"]["input"] == own
        assert components[f"{noun}Response"]["properties"]["output"] == made


def test_the_response_lists_what_cog_lists():
    properties = openapi_schema(Predictor)["components"]["schemas"]["PredictionResponse"][
        "properties"
    ]
    assert set(properties) == {
        "input", "output", "id", "version", "created_at", "started_at", "completed_at",
        "status", "error", "logs", "metrics",
    }  # fmt: skip
    assert properties["created_at"] == {
        "title": "Created At",
        "type": "string",
        "format": "date-time",
    }


def test_errors_and_states_have_their_shapes():
    components = openapi_schema(Predictor)["components"]["schemas"]
    assert components["ValidationError"]["required"] == ["loc", "msg", "type"]
    assert components["HTTPValidationError"]["properties"]["detail"]["type"] == "array"
    assert components["Status"]["enum"] == [
        "starting",
        "processing",
        "succeeded",
        "canceled",
        "failed",
    ]


def test_operations_have_the_names_that_clients_are_generated_from():
    paths = openapi_schema(Predictor, train)["paths"]
    names = [method["operationId"] for path in paths.values() for method in path.values()]
    assert names == [
        "root__get",
        "healthcheck_health_check_get",
        "predict_predictions_post",
        "cancel_predictions__prediction_id__cancel_post",
        "train_trainings_post",
        "cancel_trainings__training_id__cancel_post",
    ]


def references_in(part: Any) -> set[str]:
    if isinstance(part, dict):
        own = {part["$ref"]} if "$ref" in part else set()
        return own.union(*map(references_in, part.values()))
    return set().union(*map(references_in, part)) if isinstance(part, list) else set()


@pytest.mark.parametrize("targets", [(Predictor, None), (Predictor, train), (None, train)])
def test_every_reference_leads_somewhere(targets):
    schema = openapi_schema(*targets)
    found = references_in(schema)
    assert len(found) >= 5
    for reference in found:
        assert resolve(schema, *reference.removeprefix("#/").split("/"))


def test_every_component_is_a_valid_json_schema():
    for component in openapi_schema(Predictor, train)["components"]["schemas"].values():
        jsonschema.Draft4Validator.check_schema(component)


def test_a_streaming_predictor_says_so():
    assert openapi_schema(Streams)["paths"]["/predictions"]["post"]["x-cog-streaming"] is True
    assert "x-cog-streaming" not in openapi_schema(Predictor)["paths"]["/predictions"]["post"]


@cog.streaming
def streaming_train(steps: int = 1) -> cog.ConcatenateIterator[str]: ...


def test_training_never_streams():
    schema = openapi_schema(Streams, streaming_train)
    assert "x-cog-streaming" not in schema["paths"]["/trainings"]["post"]


def test_a_missing_or_wrong_return_type_is_refused():
    def untyped(x: int): ...

    def wrong(x: int) -> bytes: ...

    with pytest.raises(ConfigError, match="untyped has no return type"):
        openapi_schema(untyped)
    with pytest.raises(ConfigError, match="return type of wrong: type bytes"):
        openapi_schema(wrong)
