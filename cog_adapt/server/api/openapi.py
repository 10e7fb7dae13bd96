"""The OpenAPI document that the server answers with: Cog's, and what Cog does not list.

FastAPI makes the second part from the routes. Nothing that Cog says is lost: its components stay as
they are, and its operations gain answers and headers. Only the body of a POST is another component,
Cog's with the bounds that are checked.
"""

import copy
import json
import re
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

_PREFIX = "Mirror."  # a dot: an input with choices is a component too, and has none in its name
_BODIES = (PredictionRequest.__name__, PredictionOfId.__name__)
_STREAM = {"text/event-stream": {"schema": reference(f"{_PREFIX}{Event.__name__}")}}
_KNOWN_ID = {"prediction_id": "$response.body#/id"}
_LINKS = {
    "links": {
        name: {"operationId": f"{name}_predictions__prediction_id__{end}", "parameters": _KNOWN_ID}
        for name, end in (
            *(("show", "get"), ("events", "events_get")),
            *(("deliveries", "deliveries_get"), ("once", "put")),
        )
    }
}
_ACCEPTED: Responses = {202: {"model": Run, "description": "Accepted: not finished yet"} | _LINKS}
_REFUSED = refusals(400, 404, 406, 408, 409, 413, 415, 429, 503, 507)
_DONE: Responses = {200: _LINKS}
_NOT_THERE: Responses = {404: {"model": Nothing, "description": "There is none"}}
_REPLAYED: Responses = {
    200: {
        "headers": {
            "Idempotent-Replayed": {
                "description": "`true`: it had run before, and has not run again.",
                "schema": {"type": "string", "enum": ["true"]},
            }
        }
    }
    | _LINKS
}
_Headers = Annotated[RunHeaders, Header()]
_described = APIRouter()  # what `predictions.py` answers, which reads its requests itself


@_described.post("/predictions", response_class=Response, responses=_DONE | _ACCEPTED | _REFUSED)
async def create(headers: _Headers, body: PredictionRequest) -> None:
    """Run, under an id of the client's or a new one."""


@_described.put(
    "/predictions/{prediction_id}",
    response_model=Run,
    responses=_REPLAYED | _ACCEPTED | _REFUSED,
)
async def once(prediction_id: PathId, headers: _Headers, body: PredictionOfId) -> None:
    """Run once: the same id again gives what is known of it."""


@_described.post(
    "/predictions/{prediction_id}/cancel",
    response_class=Response,
    responses=refusals(400, 409) | _NOT_THERE,
)
async def cancel(prediction_id: PathId) -> None:
    """Cancel it; what has ended cannot be cancelled."""


def whole_document(app: FastAPI, cogs: Schema) -> dict[str, Any]:
    """Return the document of a predictor with the endpoints of an application.

    Args:
        app: with the server's routes, and those that its owner added.
        cogs: as `cog build` bundles it; it is left as it is.
    """
    if app.openapi_schema is None:  # FastAPI's own place for it
        app.openapi_schema = _describe(app.routes)
    own, whole = app.openapi_schema, cogs
    for endpoint in (PREDICTIONS, TRAININGS):
        if f"/{endpoint.noun}s" in cogs["paths"]:
            whole = _with_runs(endpoint, whole, own)
    paths = {path: item for path, item in own["paths"].items() if not _is_of_runs(path)}
    bodies = {f"{_PREFIX}{name}" for name in _BODIES}
    schemas = own["components"]["schemas"]
    others = {name: schema for name, schema in schemas.items() if name not in bodies}
    return _joined(whole, {"paths": paths, "components": {"schemas": others}})


def _describe(routes: list[BaseRoute]) -> dict[str, Any]:
    """Return FastAPI's document; of both kinds of runs it has predictions."""
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
    """Return the route with one method: a HEAD is answered as its GET."""
    if not isinstance(route, APIRoute) or not route.methods:
        return route
    shown = copy.copy(route)
    shown.methods = route.methods - {"HEAD"}
    shown.unique_id = generate_unique_id(shown)
    return shown


def _is_of_runs(path: str) -> bool:
    return path.split("/")[1] == f"{PREDICTIONS.noun}s"


def _with_runs(endpoint: Endpoint, cogs: Schema, own: Schema) -> dict[str, Any]:
    """Return Cog's document with all operations on predictions, or on trainings."""
    part = _runs_of(endpoint, own)
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
    """Return a copy of what is said of predictions, in the words of the endpoint."""
    schemas = {
        f"{_PREFIX}{name}": own["components"]["schemas"][f"{_PREFIX}{name}"] for name in _BODIES
    }
    paths = {path: item for path, item in own["paths"].items() if _is_of_runs(path)}
    text = json.dumps({"paths": paths, "components": {"schemas": schemas}})
    noun, ours = PREDICTIONS.noun, endpoint.noun
    copied: dict[str, Any] = json.loads(
        text.replace(noun, ours).replace(noun.title(), ours.title())
    )
    return copied


def _joined(first: Schema, second: Schema) -> dict[str, Any]:
    """Return both; where both have a value that is no object, the first's."""
    both = second | first
    for name in first.keys() & second.keys():
        if isinstance(first[name], dict) and isinstance(second[name], dict):
            both[name] = _joined(first[name], second[name])
    return both
