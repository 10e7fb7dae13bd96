"""The OpenAPI document of the server: Cog's, with the operations that Cog does not list.

FastAPI makes the second part from the routes. Cog's part is complete, and its operations gain
answers and headers. Three values differ: the body of a POST is another component, Cog's with the
checked bounds; each operation has an id by the rule of all routes; each component's title is its
name, because generators call their classes by titles, and Cog has the title `Output` twice.
"""

import copy
import json
import re
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Header
from fastapi.encoders import jsonable_encoder
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute

from cog_adapt.server.api.nullable import with_nullable
from cog_adapt.server.api.operations import (
    SECURITY_SCHEMES,
    SERVERS,
    operation_id,
    tagged_and_secured,
)
from cog_adapt.server.api.shapes import (
    Event,
    Nothing,
    PathId,
    PredictionOfId,
    PredictionRequest,
    Responses,
    Run,
    RunHeaders,
    TrainingOfId,
    TrainingRequest,
    refusals,
)
from cog_adapt.server.schema.document import (
    PREDICTIONS,
    SHARED_COMPONENTS,
    TRAININGS,
    Endpoint,
    reference,
)
from cog_adapt.server.schema.types import Schema

_PREFIX = "Mirror"
_LINKED = ("get", "events", "deliveries", "create_once")
_REPLAYED = {
    "headers": {
        "Idempotent-Replayed": {
            "description": "`true`: it had run before, and has not run again.",
            "schema": {"type": "string", "enum": ["true"]},
        }
    }
}
_CANCELLED: Responses = refusals(400, 409) | {
    404: {"model": Nothing, "description": "There is none"}
}
_Headers = Annotated[RunHeaders, Header()]
_described = APIRouter()  # routes that `predictions.py` answers, which reads their requests itself


def _answers(noun: str, done: dict[str, Any] | None = None) -> Responses:
    """Return the answers of a POST or PUT, with links to the next operations."""
    parameters = {f"{noun}_id": "$response.body#/id"}
    links = {name: {"operationId": f"{noun}s.{name}", "parameters": parameters} for name in _LINKED}
    accepted = {"model": Run, "description": "Accepted: not finished yet", "links": links}
    refused = refusals(400, 404, 406, 408, 409, 413, 415, 429, 503, 507)
    return {200: (done or {}) | {"links": links}, 202: accepted} | refused


@_described.post(
    "/predictions", name="create", response_class=Response, responses=_answers("prediction")
)
async def create_prediction(headers: _Headers, body: PredictionRequest) -> None:
    """Start a run, under an id of the client or a new one."""


@_described.post(
    "/trainings", name="create", response_class=Response, responses=_answers("training")
)
async def create_training(headers: _Headers, body: TrainingRequest) -> None:
    """Start a run, under an id of the client or a new one."""


@_described.put(
    "/predictions/{prediction_id}",
    name="create_once",
    response_model=Run,
    responses=_answers("prediction", _REPLAYED),
)
async def predict_once(prediction_id: PathId, headers: _Headers, body: PredictionOfId) -> None:
    """Start a run once: a repeated id is answered from its record."""


@_described.put(
    "/trainings/{training_id}",
    name="create_once",
    response_model=Run,
    responses=_answers("training", _REPLAYED),
)
async def train_once(training_id: PathId, headers: _Headers, body: TrainingOfId) -> None:
    """Start a run once: a repeated id is answered from its record."""


@_described.post(
    "/predictions/{prediction_id}/cancel",
    name="cancel",
    response_class=Response,
    responses=_CANCELLED,
)
async def cancel_prediction(prediction_id: PathId) -> None:
    """Cancel a run that has not ended."""


@_described.post(
    "/trainings/{training_id}/cancel",
    name="cancel",
    response_class=Response,
    responses=_CANCELLED,
)
async def cancel_training(training_id: PathId) -> None:
    """Cancel a run that has not ended."""


@_described.get("/", name="root", tags=["server"], response_class=Response)
async def root() -> None:
    """Return the paths of the server's endpoints."""


@_described.get("/health-check", tags=["server"], response_class=Response)
async def health_check() -> None:
    """Return the state of the model and of its setup."""


def whole_document(app: FastAPI, cogs: Schema, *, needs_key: bool = False) -> dict[str, Any]:
    """Return the document of a predictor with the endpoints of an application.

    Args:
        app: with the server's routes, and those that its owner added.
        cogs: as `cog build` bundles it; it is not changed.
        needs_key: whether the operator has set API keys.
    """
    prefix = _prefix_beside(cogs)
    if app.openapi_schema is None:  # the attribute in which FastAPI itself caches its document
        app.openapi_schema = _describe(app.routes, prefix)
    own, whole = app.openapi_schema, _without_ids(cogs)
    for endpoint in (PREDICTIONS, TRAININGS):
        if f"/{endpoint.noun}s" in cogs["paths"]:
            whole = _with_runs(endpoint, whole, own, prefix)
    runs = [_runs_of(endpoint, own, prefix) for endpoint in (PREDICTIONS, TRAININGS)]
    joined = _joined(whole, _without(own, runs))
    paths = tagged_and_secured(joined["paths"], needs_key=needs_key)
    schemas = joined["components"]["schemas"]
    titled = {name: schema | {"title": name} for name, schema in schemas.items()}
    components = {"schemas": titled, "securitySchemes": SECURITY_SCHEMES}
    return joined | {"servers": SERVERS, "paths": paths, "components": components}


def _prefix_beside(cogs: Schema) -> str:
    """Return a prefix of component names that no component of Cog's begins with.

    An input with choices is a component, and may have any name.
    """
    prefix = _PREFIX
    while any(name.startswith(prefix) for name in cogs["components"]["schemas"]):
        prefix += "_"
    return prefix


def _without_ids(cogs: Schema) -> dict[str, Any]:
    """Return Cog's document without the ids of its operations."""
    paths = {
        path: {
            method: {name: value for name, value in operation.items() if name != "operationId"}
            for method, operation in item.items()
        }
        for path, item in cogs["paths"].items()
    }
    return cogs | {"paths": paths}


def _describe(routes: list[BaseRoute], prefix: str) -> dict[str, Any]:
    """Return FastAPI's document; the names of its components have the prefix."""
    shown = [_without_head(route) for route in [*routes, *_described.routes]]
    found = get_openapi(title="Cog", version="", routes=shown)
    schemas = found["components"]["schemas"] | {
        Event.__name__: jsonable_encoder(Event.model_json_schema(), exclude_none=True)
    }
    own = {name: schema for name, schema in schemas.items() if name not in SHARED_COMPONENTS}
    named = {f"{prefix}{name}": schema for name, schema in own.items()}
    text = json.dumps({"paths": found["paths"], "components": {"schemas": named}})
    place = '"#/components/schemas/'
    renamed = re.sub(rf'{place}({"|".join(own)})"', rf'{place}{prefix}\1"', text)
    document: dict[str, Any] = with_nullable(json.loads(renamed))
    return document


def _without_head(route: BaseRoute) -> BaseRoute:
    """Return the route with one method: a HEAD is answered like its GET."""
    if not isinstance(route, APIRoute) or not route.methods:
        return route
    shown = copy.copy(route)
    shown.methods = route.methods - {"HEAD"}
    shown.unique_id = shown.operation_id or operation_id(shown)
    return shown


def _with_runs(endpoint: Endpoint, cogs: Schema, own: Schema, prefix: str) -> dict[str, Any]:
    """Return Cog's document with all operations on predictions, or on trainings."""
    part = copy.deepcopy(_runs_of(endpoint, own, prefix))
    path, one = f"/{endpoint.noun}s", f"/{endpoint.noun}s/{{{endpoint.noun}_id}}"
    post, put = part["paths"][path]["post"], part["paths"][one]["put"]
    streams = cogs["paths"][path]["post"].get("x-cog-streaming")
    inputs = cogs["components"]["schemas"][endpoint.input]
    needs_input = bool(inputs.get("required"))
    events = {"text/event-stream": {"schema": reference(f"{prefix}{Event.__name__}")}}
    for operation in (post, put):
        if streams:
            operation["responses"]["200"].setdefault("content", {}).update(events)
        if not needs_input:
            del operation["requestBody"]["required"]
    for body in part["components"]["schemas"].values():
        body["properties"]["input"] = {
            "allOf": [reference(endpoint.input)],
            "properties": {name: {} for name in inputs.get("properties", {})},
            "additionalProperties": False,
        }
        if not needs_input:
            body["properties"]["input"]["nullable"] = True
            del body["required"]
    exact = {"paths": {path: {"post": {"requestBody": post["requestBody"]}}}}
    return _joined(_joined(exact, cogs), part)


def _runs_of(endpoint: Endpoint, own: Schema, prefix: str) -> dict[str, Any]:
    """Return the part of the document about predictions only, or about trainings only."""
    bodies = tuple(f"{prefix}{endpoint.noun.title()}{end}" for end in ("Request", "OfId"))
    schemas = own["components"]["schemas"]
    paths = own["paths"]
    return {
        "paths": {at: paths[at] for at in paths if at.split("/")[1] == f"{endpoint.noun}s"},
        "components": {"schemas": {name: schemas[name] for name in bodies}},
    }


def _without(own: Schema, parts: Sequence[Schema]) -> dict[str, Any]:
    """Return paths and components that are in none of the parts."""
    paths = {path for part in parts for path in part["paths"]}
    names = {name for part in parts for name in part["components"]["schemas"]}
    schemas = own["components"]["schemas"]
    return {
        "paths": {path: item for path, item in own["paths"].items() if path not in paths},
        "components": {"schemas": {name: schemas[name] for name in schemas if name not in names}},
    }


def _joined(first: Schema, second: Schema) -> dict[str, Any]:
    """Return both documents joined; the first one's plain values win."""
    both = second | first
    for name in first.keys() & second.keys():
        if isinstance(first[name], dict) and isinstance(second[name], dict):
            both[name] = _joined(first[name], second[name])
    return both
