"""The mirror's OpenAPI document says all that Cog's says, and more."""

import copy
import re

import cog
import pytest
from cog import BasePredictor, Input
from jsonschema_rs import Draft4Validator

from cog_adapt.server.app import create_app
from cog_adapt.server.schema.mirror_document import mirror_document
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.settings import Settings
from tests.cog_adapt.server.routes_walk import routes_of

OPERATIONS = ("get", "post", "put")


class Plain(BasePredictor):
    def predict(self, text: str = "x", colour: str = Input(default="red", choices=["red"])) -> str:
        return text


class Streaming(BasePredictor):
    @cog.streaming
    def predict(self, text: str) -> cog.ConcatenateIterator[str]:
        yield text


def train(name: str) -> str:
    return name


def documents(predict, train=None):
    cogs = openapi_schema(predict, train)
    return cogs, mirror_document(cogs, strict=False)


def operations_of(document):
    return {
        f"{method.upper()} {path}": operation
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if method in OPERATIONS
    }


def lost_in(mine, cogs, place=""):
    """The places where Cog's document says something that mine does not."""
    if isinstance(cogs, dict) and isinstance(mine, dict):
        for name, value in cogs.items():
            yield from lost_in(mine.get(name), value, f"{place} {name}")
    elif mine != cogs:
        yield place.strip()


@pytest.mark.parametrize("predict", [Plain, Streaming, None])
def test_nothing_of_cogs_is_lost_but_the_loose_bodies(predict):
    cogs, mine = documents(predict, train)
    body = "post requestBody content application/json schema $ref"
    kinds = [kind for kind in ("/predictions", "/trainings") if kind in cogs["paths"]]
    assert list(lost_in(mine, cogs)) == [f"paths {kind} {body}" for kind in kinds]


def test_cogs_components_stay_as_they_are():
    cogs, mine = documents(Plain, train)
    for name, component in cogs["components"]["schemas"].items():
        assert mine["components"]["schemas"][name] == component


@pytest.mark.parametrize("noun", ["Prediction", "Training"])
@pytest.mark.parametrize("body", ["Mirror.{}Request", "Mirror.{}OfId"])
def test_a_body_has_the_inputs_of_the_model_and_no_others(noun, body):
    _, mine = documents(Plain, train)
    schemas = mine["components"]["schemas"]
    schema = {"$ref": f"#/components/schemas/{body.format(noun)}", "components": mine["components"]}
    name = "text" if noun == "Prediction" else "name"
    validator = Draft4Validator(schema)
    assert validator.is_valid({"input": {name: "a"}})
    assert not validator.is_valid({"input": {name: 1}})
    assert not validator.is_valid({"input": {name: "a", "other": 1}})
    assert (
        "additionalProperties" not in schemas["Input" if noun == "Prediction" else "TrainingInput"]
    )


def test_no_component_of_the_mirror_can_be_named_like_an_input():
    cogs, mine = documents(Plain, train)
    added = mine["components"]["schemas"].keys() - cogs["components"]["schemas"].keys()
    assert added
    assert not any(name.isidentifier() for name in added)


def test_a_strict_mirror_serves_cogs_document():
    cogs, _ = documents(Plain)
    assert mirror_document(cogs, strict=True) == openapi_schema(Plain)


def test_cogs_document_is_not_touched():
    cogs = openapi_schema(Streaming, train)
    before = copy.deepcopy(cogs)
    mirror_document(cogs, strict=False)
    assert cogs == before


def test_every_route_of_the_mirror_is_listed():
    _, mine = documents(Plain, train)
    routes = {
        f"{method} {path}"
        for method, path in routes_of(create_app(Settings()))
        if method != "HEAD"  # every GET answers it
    }
    listed = {re.sub(r"\{[^}]*\}", "some-id", name) for name in operations_of(mine)}
    assert listed == routes - {"GET /docs/some-id"}  # a file of the page


def test_only_what_the_predictor_can_do_is_listed():
    _, mine = documents(Plain)
    assert not [path for path in mine["paths"] if path.startswith("/trainings")]
    _, mine = documents(None, train)
    assert not [path for path in mine["paths"] if path.startswith("/predictions")]


def test_every_reference_and_link_leads_somewhere():
    _, mine = documents(Streaming, train)
    operations = operations_of(mine)
    names = [operation["operationId"] for operation in operations.values()]
    assert len(names) == len(set(names))
    for key, value in walk(mine):
        if key == "$ref":
            assert value.removeprefix("#/components/schemas/") in mine["components"]["schemas"]
        elif key == "operationId":
            assert value in names


def walk(value):
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        yield key, inner
        if isinstance(inner, dict | list):
            yield from walk(inner)


def test_a_body_is_required_exactly_where_an_input_is():
    for predict, is_required in ((Plain, None), (Streaming, True)):
        _, mine = documents(predict)
        for name in ("POST /predictions", "PUT /predictions/{prediction_id}"):
            assert operations_of(mine)[name]["requestBody"].get("required") is is_required
        body = mine["components"]["schemas"]["Mirror.PredictionRequest"]
        assert body.get("required") == (["input"] if is_required else None)


def test_streams_are_listed_exactly_where_the_model_streams():
    for predict, streams in ((Plain, False), (Streaming, True)):
        _, mine = documents(predict)
        for name in ("POST /predictions", "PUT /predictions/{prediction_id}"):
            content = operations_of(mine)[name]["responses"]["200"]["content"]
            assert ("text/event-stream" in content) is streams
            assert "application/json" in content
