"""The OpenAPI document of the server: Cog's, with the operations that Cog does not list.

FastAPI makes the second part from the routes. Cog's part is complete: its components are unchanged,
and its operations gain answers and headers. Only the body of a POST is another component: Cog's
with the checked bounds.
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
from fastapi.utils import generate_unique_id
from starlette.responses import Response
from starlette.routing import BaseRoute

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

# with a dot, because an input with choices is a component too, and its name has no dot
_PREFIX = "Mirror."
_STREAM = {"text/event-stream": {"schema": reference(f"{_PREFIX}{Event.__name__}")}}
_LINKED = {"show": "get", "events": "events_get", "deliveries": "deliveries_get", "once": "put"}
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
    links = {
        name: {"operationId": f"{name}_{noun}s__{noun}_id__{end}", "parameters": parameters}
        for name, end in _LINKED.items()
    }
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
    name="once",
    response_model=Run,
    responses=_answers("prediction", _REPLAYED),
)
async def predict_once(prediction_id: PathId, headers: _Headers, body: PredictionOfId) -> None:
    """Start a run once: a repeated id is answered from its record."""


@_described.put(
    "/trainings/{training_id}",
    name="once",
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


def whole_document(app: FastAPI, cogs: Schema) -> dict[str, Any]:
    """Return the document of a predictor with the endpoints of an application.

    Args:
        app: with the server's routes, and those that its owner added.
        cogs: as `cog build` bundles it; it is not changed.
    """
    if app.openapi_schema is None:  # the attribute in which FastAPI itself caches its document
        app.openapi_schema = _describe(app.routes)
    own, whole = app.openapi_schema, cogs
    for endpoint in (PREDICTIONS, TRAININGS):
        if f"/{endpoint.noun}s" in cogs["paths"]:
            whole = _with_runs(endpoint, whole, own)
    runs = [_runs_of(endpoint, own) for endpoint in (PREDICTIONS, TRAININGS)]
    return _joined(whole, _without(own, runs))


def _describe(routes: list[BaseRoute]) -> dict[str, Any]:
    """Return FastAPI's document; its components have names that no input can have."""
    shown = [_without_head(route) for route in [*routes, *_described.routes]]
    found = get_openapi(title="Cog", version="", routes=shown)
    schemas = found["components"]["schemas"] | {
        Event.__name__: jsonable_encoder(Event.model_json_schema(), exclude_none=True)
    }
    own = {name: schema for name, schema in schemas.items() if name not in SHARED_COMPONENTS}
    named = {f"{_PREFIX}{name}": schema for name, schema in own.items()}
    text = json.dumps({"paths": found["paths"], "components": {"schemas": named}})
    place = '"#/components/schemas/'
    renamed = re.sub(rf'{place}({"|".join(own)})"', rf'{place}{_PREFIX}\1"', text)
    document: dict[str, Any] = json.loads(renamed)
    return document


def _without_head(route: BaseRoute) -> BaseRoute:
    """Return the route with one method: a HEAD is answered like its GET."""
    if not isinstance(route, APIRoute) or not route.methods:
        return route
    shown = copy.copy(route)
    shown.methods = route.methods - {"HEAD"}
    shown.unique_id = generate_unique_id(shown)
    return shown


def _with_runs(endpoint: Endpoint, cogs: Schema, own: Schema) -> dict[str, Any]:
    """Return Cog's document with all operations on predictions, or on trainings."""
    part = copy.deepcopy(_runs_of(endpoint, own))
    path, one = f"/{endpoint.noun}s", f"/{endpoint.noun}s/{{{endpoint.noun}_id}}"
    post, put = part["paths"][path]["post"], part["paths"][one]["put"]
    streams = cogs["paths"][path]["post"].get("x-cog-streaming")
    inputs = cogs["components"]["schemas"][endpoint.input]
    needs_input = bool(inputs.get("required"))
    for operation in (post, put):
        if streams:
            operation["responses"]["200"].setdefault("content", {}).update(_STREAM)
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


def _runs_of(endpoint: Endpoint, own: Schema) -> dict[str, Any]:
    """Return the part of the document about predictions only, or about trainings only."""
    bodies = tuple(f"{_PREFIX}{endpoint.noun.title()}{end}" for end in ("Request", "OfId"))
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
