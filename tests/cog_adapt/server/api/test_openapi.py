"""The server's OpenAPI document says all that Cog's says, and more."""

import copy
import re
from functools import cache

import cog
import jsonschema
import pytest
from cog import BasePredictor, Input
from fastapi import APIRouter
from jsonschema_rs import Draft4Validator

from cog_adapt.server.api.openapi import whole_document
from cog_adapt.server.app import create_app
from cog_adapt.server.middleware.platform_routes import is_platform
from cog_adapt.server.schema.openapi import openapi_schema
from cog_adapt.server.settings import Settings
from tests.cog_adapt.server.routes_walk import routes_of

OPERATIONS = ("get", "post", "put", "patch", "delete")


class Plain(BasePredictor):
    def predict(self, text: str = "x", colour: str = Input(default="red", choices=["red"])) -> str:
        return text


class Streaming(BasePredictor):
    @cog.streaming
    def predict(self, text: str) -> cog.ConcatenateIterator[str]:
        yield text


def train(name: str) -> str:
    return name


@cache
def documents(predict, train=None):
    cogs = openapi_schema(predict, train)
    return cogs, whole_document(create_app(Settings()), cogs)


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


@pytest.mark.parametrize("noun", ["Prediction", "Training"])
@pytest.mark.parametrize("body", ["Mirror{}Request", "Mirror{}OfId"])
def test_a_body_has_the_inputs_of_the_model_and_no_others(noun, body):
    _, mine = documents(Plain, train)
    schema = {"$ref": f"#/components/schemas/{body.format(noun)}", "components": mine["components"]}
    name = "text" if noun == "Prediction" else "name"
    validator = Draft4Validator(schema)
    assert validator.is_valid({"input": {name: "a"}})
    assert not validator.is_valid({"input": {name: 1}})
    assert not validator.is_valid({"input": {name: "a", "other": 1}})


@pytest.mark.parametrize("predict", [Plain, Streaming, None])
def test_nothing_of_cogs_is_lost_but_the_loose_bodies_and_the_ids(predict):
    cogs, mine = documents(predict, train)
    body = "post requestBody content application/json schema $ref"
    kinds = [kind for kind in ("/predictions", "/trainings") if kind in cogs["paths"]]
    ids = {
        f"paths {path} {method} operationId"
        for path, item in cogs["paths"].items()
        for method in item
    }
    lost = set(lost_in(mine, cogs)) - {"components schemas TrainingOutput title"}
    assert lost == {f"paths {kind} {body}" for kind in kinds} | ids


class Clashing(BasePredictor):
    def predict(self, MirrorRun: str = Input(default="a", choices=["a", "b"])) -> str:
        return MirrorRun


def test_a_component_beyond_cogs_is_never_named_like_an_input():
    cogs, mine = documents(Clashing, train)
    schemas = mine["components"]["schemas"]
    assert schemas["MirrorRun"] == cogs["components"]["schemas"]["MirrorRun"]
    shown = operations_of(mine)["GET /predictions/{prediction_id}"]["responses"]["200"]
    (reference,) = shown["content"]["application/json"]["schema"].values()
    assert schemas[reference.removeprefix("#/components/schemas/")]["properties"]["queue_position"]


def test_each_component_has_a_name_and_a_class_of_its_own():
    _, mine = documents(Plain, train)
    schemas = mine["components"]["schemas"]
    assert not [name for name in schemas if not name.isidentifier()]
    assert {name: schema["title"] for name, schema in schemas.items()} == {n: n for n in schemas}


def test_cogs_document_is_not_touched():
    cogs = openapi_schema(Streaming, train)
    before = copy.deepcopy(cogs)
    app = create_app(Settings())
    assert whole_document(app, cogs) == whole_document(app, cogs)
    assert cogs == before


def test_every_route_is_listed():
    _, mine = documents(Plain, train)
    routes = {
        f"{method} {path}"
        for method, path in routes_of(create_app(Settings()))
        if method != "HEAD"  # every GET answers it
        and not is_platform(path)  # Replicate's own document describes its API
    }
    listed = {re.sub(r"\{[^}]*\}", "some-id", name) for name in operations_of(mine)}
    playground = {"", "/", "/assets/some-id"}
    pages = {"GET /docs/some-id", *(f"GET /playground{rest}" for rest in playground)}
    assert listed == routes - pages  # a page and its files are nothing to call


def test_without_a_predictor_no_predictions_are_listed():
    _, mine = documents(None, train)
    assert not [path for path in mine["paths"] if path.startswith("/predictions")]


def test_every_reference_and_link_leads_somewhere():
    _, mine = documents(Streaming, train)
    operations = operations_of(mine)
    names = [operation["operationId"] for operation in operations.values()]
    assert "predictions.create_once" in names
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


def test_where_no_input_is_required_no_body_is():
    _, mine = documents(Plain)
    for name in ("POST /predictions", "PUT /predictions/{prediction_id}"):
        assert "required" not in operations_of(mine)[name]["requestBody"]
    assert "required" not in mine["components"]["schemas"]["MirrorPredictionRequest"]


def test_nothing_in_the_document_is_of_a_later_openapi():
    """A later version says null, a constant and exclusive bounds in ways that 3.0 does not know."""
    _, mine = documents(Streaming, train)
    later = [
        (key, value)
        for key, value in walk(mine)
        if key == "const" or value == "null" or (key == "default" and value is None)
    ]
    assert later == []
    for name, component in mine["components"]["schemas"].items():
        if name.startswith("Mirror"):
            jsonschema.Draft4Validator.check_schema(component)


def test_a_route_of_ones_own_is_listed():
    app = create_app(Settings())

    @app.get("/queue")
    async def queue() -> dict[str, int]:
        """Return how many wait."""
        return {}

    listed = whole_document(app, openapi_schema(Plain))["paths"]["/queue"]["get"]
    assert listed["description"] == "Return how many wait."
    assert (listed["operationId"], listed["tags"]) == ("queue.queue", ["queue"])
    content = listed["responses"]["200"]["content"]["application/json"]
    assert content["schema"]["type"] == "object"


def test_a_router_of_ones_own_follows_the_same_rule():
    app, router = create_app(Settings()), APIRouter(tags=["answers"])

    @router.get("/v1/answers", name="list")
    @router.get("/v1/authors/{author}/answers", name="list")
    @router.post("/v1/answers/{answer}/retract")
    async def retract() -> dict[str, int]:
        return {}

    app.include_router(router)
    found = operations_of(whole_document(app, openapi_schema(Plain)))
    own = {name: each["operationId"] for name, each in found.items() if "/v1/" in name}
    assert own == {
        "GET /v1/answers": "v1.answers.list",
        "GET /v1/authors/{author}/answers": "v1.authors.answers.list",
        "POST /v1/answers/{answer}/retract": "v1.answers.retract",
    }
    assert found["GET /v1/answers"]["tags"] == ["answers"]


def test_where_keys_are_set_each_operation_says_that_it_needs_one():
    mine = whole_document(create_app(Settings()), openapi_schema(Plain), needs_key=True)
    keys: list[dict[str, list[str]]] = [{"bearer": []}, {"key": []}]
    without = {"GET /healthz": None, "GET /readyz": [{}, *keys]}
    for name, operation in operations_of(mine).items():
        assert operation.get("security") == without.get(name, keys), name
