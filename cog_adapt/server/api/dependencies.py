"""Gives routes the parts of the server, by their types.

Your own routes ask for the parts as the server's routes do; `server/app.py` shows one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import unquote

from fastapi import Depends, FastAPI
from starlette.requests import Request

from cog_adapt.server.api.large_bodies import LargeBodies
from cog_adapt.server.api.shapes import PathId
from cog_adapt.server.errors import InvalidPath
from cog_adapt.server.service.adapters import Adapters
from cog_adapt.server.service.health import HealthMonitor
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.webhooks import Webhooks


@dataclass(frozen=True)
class Parts:
    """The parts of a running server.

    Attributes:
        settings: of the operator.
        service: runs predictions and trainings.
        monitor: reports the server's health.
        webhooks: sends events.
        metrics: for Prometheus.
        shut_down: ends the server.
        adapters: those that the predictor keeps.
        large_bodies: reads them.
    """

    settings: Settings
    service: PredictionService
    monitor: HealthMonitor
    webhooks: Webhooks
    metrics: Metrics
    shut_down: Callable[[], None]
    adapters: Adapters
    large_bodies: LargeBodies = field(default_factory=LargeBodies)


def parts_in(app: FastAPI) -> Parts:
    """Return the parts of a server that has started."""
    parts: Parts = app.state.parts
    return parts


def parts_of(request: Request) -> Parts:
    """Return the parts of the server that handles this request."""
    return parts_in(request.app)


# Coroutines, since FastAPI runs a plain function in a thread.
async def _service(request: Request) -> PredictionService:
    return parts_of(request).service


async def _monitor(request: Request) -> HealthMonitor:
    return parts_of(request).monitor


async def _webhooks(request: Request) -> Webhooks:
    return parts_of(request).webhooks


async def _metrics(request: Request) -> Metrics:
    return parts_of(request).metrics


async def _shut_down(request: Request) -> Callable[[], None]:
    return parts_of(request).shut_down


async def _adapters(request: Request) -> Adapters:
    return parts_of(request).adapters


async def read_prediction_id(request: Request) -> str:
    """Return the id in a request's path; `%2F` in it is a slash.

    Raises:
        InvalidPath: the path is not UTF-8.
    """
    raw: str = request.path_params["prediction_id"]
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidPath("Invalid URL: Invalid UTF-8 in `id`") from error


async def _prediction_id(request: Request, prediction_id: PathId) -> str:  # for the document
    return await read_prediction_id(request)


ServiceDep = Annotated[PredictionService, Depends(_service)]
MonitorDep = Annotated[HealthMonitor, Depends(_monitor)]
WebhooksDep = Annotated[Webhooks, Depends(_webhooks)]
MetricsDep = Annotated[Metrics, Depends(_metrics)]
AdaptersDep = Annotated[Adapters, Depends(_adapters)]
ShutDownDep = Annotated[Callable[[], None], Depends(_shut_down)]
PredictionIdDep = Annotated[str, Depends(_prediction_id)]
