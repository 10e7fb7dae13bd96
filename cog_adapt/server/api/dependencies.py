"""Gives routes the parts of the server by their types, and the caller.

Your own routes get the parts as the server's routes do; `server/app.py` shows one.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import Depends, FastAPI, params
from starlette.requests import Request
from starlette.types import Scope

from cog_adapt.adapter_rule import Asker
from cog_adapt.server.api.file_response import FilePace
from cog_adapt.server.api.large_bodies import LargeBodies
from cog_adapt.server.api.passing import PeerClient
from cog_adapt.server.api.responses import record_body
from cog_adapt.server.api.shapes import PathId
from cog_adapt.server.errors import InvalidPath, NotFound
from cog_adapt.server.files.signed_urls import SignedUrls
from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.adapters import AdapterService
from cog_adapt.server.service.health import HealthMonitor
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.webhooks import Webhooks

_OWNER = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._@-]{0,63})?")


@dataclass(frozen=True)
class ServerParts:
    """The parts of a running server.

    Attributes:
        settings: of the operator.
        service: runs predictions and trainings.
        monitor: reports the server's health.
        webhooks: sends events.
        metrics: for Prometheus.
        shut_down: ends the server.
        adapters: the predictor's.
        upload_url: output files are PUT below this URL; None: they are part of the answer.
        signed: signs and checks URLs.
        large_bodies: reads large request bodies.
        file_pace: bounds the bytes a second of the files that are sent.
    """

    settings: Settings
    service: PredictionService
    monitor: HealthMonitor
    webhooks: Webhooks
    metrics: Metrics
    shut_down: Callable[[], None]
    adapters: AdapterService
    signed: SignedUrls
    upload_url: str | None = None
    large_bodies: LargeBodies = field(default_factory=LargeBodies)
    file_pace: FilePace = field(default_factory=FilePace)

    @cached_property
    def peers(self) -> PeerClient:
        """Asks the other servers of the same database."""
        return PeerClient(self.service.records.peers)


def parts_in(app: FastAPI) -> ServerParts:
    """Return the parts of a server that has started."""
    parts: ServerParts = app.state.parts
    return parts


def parts_of(request: Request) -> ServerParts:
    """Return the parts of the server that handles this request."""
    return parts_in(request.app)


@dataclass(frozen=True)
class RequestCaller(Asker):
    """The asker of a request about records.

    Attributes:
        wanted: the owner that a key with the scope `admin` filters by; None: all owners.
        scope: of the request; None where no keys are set.
    """

    wanted: str | None = None
    scope: Scope | None = None

    @property
    def listed(self) -> str | None:
        """The owner whose records a list shows; None: all owners."""
        return self.wanted if self.sees_all else self.owner

    @property
    def replayed(self) -> tuple[str, ...]:
        """The owner whose records answer a repeated PUT; an admin also gets unowned ones."""
        return (self.owner, "") if self.sees_all else (self.owner,)

    def view(self, record: Record) -> dict[str, Any]:
        """Return a record as the API shows it; an admin also sees the owner."""
        whose = {"owner": record.owner} if self.sees_all and record.owner else {}
        return record_body(record) | whose

    def note_unknown(self) -> None:
        """Log a request for an id that the key's owner does not have; another owner may have it."""
        if self.scope is not None:
            note_refusal(self.scope, "no such id of this owner")


def key_of(request: Request) -> Key | None:
    """Return the API key of a request; None if no keys are set."""
    key: Key | None = request.scope.get("state", {}).get("key")
    return key


def owner_of(request: Request) -> str:
    """Return the owner of a request's key; "" if no keys are set."""
    key = key_of(request)
    return "" if key is None else key.owner


async def asker_of(request: Request) -> Asker:
    """Return the owner of a request's key, and whether the key opens everything."""
    return _asker(key_of(request))


def _asker(key: Key | None) -> Asker:
    return Asker() if key is None else Asker(key.owner, sees_all=key.opens("admin"))


def caller_of(request: Request) -> RequestCaller:
    """Return the asker of a request about records.

    Raises:
        NotFound: an admin asks about an owner whose name is not allowed.
    """
    key = key_of(request)
    asker = _asker(key)
    wanted = request.query_params.get("owner") if asker.sees_all else None
    if wanted is not None and not _OWNER.fullmatch(wanted):
        raise NotFound(f"there is no owner {wanted[:80]!r}.")
    return RequestCaller(
        owner=asker.owner,
        sees_all=asker.sees_all,
        wanted=wanted,
        scope=None if key is None else request.scope,
    )


# Coroutines, because FastAPI runs a plain function in a thread.
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


async def _adapters(request: Request) -> AdapterService:
    return parts_of(request).adapters


async def read_prediction_id(request: Request) -> str:
    """Return the id in a request's path; `%2F` in it is a slash.

    Raises:
        InvalidPath: the path is not UTF-8.
    """
    name = "training_id" if "training_id" in request.path_params else "prediction_id"
    raw: str = request.path_params[name]
    try:
        return unquote(raw, errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidPath("Invalid URL: Invalid UTF-8 in `id`") from error


async def _show_prediction_id(prediction_id: PathId) -> None:
    """Add the parameter to the document; each route reads it itself."""


async def _show_training_id(training_id: PathId) -> None:
    """Add the parameter to the document; each route reads it itself."""


ID_IN_PATH: dict[Kind, params.Depends] = {
    "predict": Depends(_show_prediction_id),
    "train": Depends(_show_training_id),
}


ServiceDep = Annotated[PredictionService, Depends(_service)]
MonitorDep = Annotated[HealthMonitor, Depends(_monitor)]
WebhooksDep = Annotated[Webhooks, Depends(_webhooks)]
MetricsDep = Annotated[Metrics, Depends(_metrics)]
AdaptersDep = Annotated[AdapterService, Depends(_adapters)]
ShutDownDep = Annotated[Callable[[], None], Depends(_shut_down)]
AskerDep = Annotated[Asker, Depends(asker_of)]
PredictionIdDep = Annotated[str, Depends(read_prediction_id)]
