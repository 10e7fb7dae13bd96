"""The data for the playground alone: example requests, and figures of the server."""

import asyncio

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.api.dependencies import MonitorDep, ServiceDep, key_of, parts_of
from cog_adapt.server.api.example_requests import FILE, read_example_requests
from cog_adapt.server.api.page import origin_of
from cog_adapt.server.api.responses import json_response
from cog_adapt.server.api.shapes import ExampleRequest, ServerFigures, refusals
from cog_adapt.server.middleware.keys import SCOPES
from cog_adapt.server.service.figures import figures_of
from cog_adapt.server.service.gauges import sum_gauges
from cog_adapt.server.service.health import versions

_READ = ["GET", "HEAD"]
_NOW = {"Cache-Control": "no-store"}
router = APIRouter(prefix="/playground")


@router.api_route(
    "/examples.json",
    name="examples",
    methods=_READ,
    response_model=list[ExampleRequest],
    responses=refusals(500),
)
async def example_requests() -> Response:
    """Return example requests to the predictor; an empty list without any."""
    return json_response(await asyncio.to_thread(read_example_requests, FILE), 200, _NOW)


@router.api_route("/server.json", methods=_READ, response_model=ServerFigures)
async def server(request: Request, service: ServiceDep, monitor: MonitorDep) -> Response:
    """Return the server's present figures, and the scopes of the request's key."""
    key = key_of(request)
    body = figures_of(service) | {
        "status": monitor.status(),
        "key": {
            "needed": key is not None,
            "name": key.name if key else "",
            "owner": key.owner if key else "",
            "scopes": [scope for scope in SCOPES if key is None or key.opens(scope)],
        },
        "model": await sum_gauges(service.workers),
        "files": origin_of(parts_of(request).upload_url),
        "versions": versions(),
    }
    return json_response(body, 200, _NOW)
