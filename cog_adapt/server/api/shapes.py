"""The types of the API's requests and answers beyond Cog's bodies, for the OpenAPI document.

They only document: requests are read byte for byte as Cog's server reads them, and answers are
encoded where they are made. The document is of OpenAPI 3.0, which has `nullable` where later
versions have a type `null`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

from fastapi import Path
from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.json_schema import SkipJsonSchema

ID_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$"
DURATION = r"([1-9][0-9]{0,5}(?:\.[0-9]{1,3})?|0\.0{0,2}[1-9][0-9]{0,2})(ms|s|m|h)?"
_ID: dict[str, Any] = {
    "type": "string",
    "pattern": ID_PATTERN,
    "description": "1 to 128 letters, digits and . _ ~ -, beginning with a letter or digit.",
}
T = TypeVar("T")
Status = Literal["starting", "processing", "succeeded", "failed", "canceled"]
_EventName = Literal["start", "output", "logs", "completed"]
_Maybe: TypeAlias = Annotated[T | SkipJsonSchema[None], Field(json_schema_extra={"nullable": True})]
_Left: TypeAlias = T | SkipJsonSchema[None]  # the field may be absent, but not null
PathId = Annotated[str, Path(json_schema_extra=_ID)]


class Error(BaseModel):
    """The reason of a refused request."""

    error: str
    status: Annotated[_Left[str], WithJsonSchema({"type": "string", "enum": ["failed"]})] = None


class Nothing(BaseModel):
    """An object without properties."""

    model_config = ConfigDict(extra="forbid")


class Run(BaseModel):
    """A run in progress or ended."""

    id: str
    status: Status
    input: _Left[dict[str, Any]] = Field(None, description="Secrets are starred out.")
    output: Any = Field(None, description="So far, or at the end; null without any.")
    error: _Left[str] = None
    logs: _Left[str] = None
    metrics: _Left[dict[str, Any]] = None
    created_at: _Left[datetime] = None
    started_at: _Left[datetime] = None
    completed_at: _Left[datetime] = None
    owner: _Left[str] = Field(None, description="For a key with the scope `admin` only.")
    queue_position: _Left[Annotated[int, Field(ge=1)]] = None


class Page(BaseModel):
    """A page of records, newest first, and the cursor of the next page."""

    results: list[Run]
    next: _Maybe[str]


class Delivery(BaseModel):
    """A webhook: owed, received, or given up."""

    id: str
    event: _EventName
    url: str
    state: Literal["pending", "delivered", "failed"]
    attempts: int = Field(ge=0)
    last_status: _Maybe[int] = None
    last_error: _Maybe[str] = None
    created_at: datetime
    delivered_at: _Maybe[datetime] = None


class Deliveries(BaseModel):
    """All webhooks of one run."""

    results: list[Delivery]


class Event(BaseModel):
    """One event of a stream; its data is JSON."""

    event: str
    id: _Left[str] = None
    data: str


class Liveness(BaseModel):
    """Whether the front process answers."""

    alive: bool


class Readiness(BaseModel):
    """Whether the server accepts requests, and if not, why."""

    ready: bool
    status: str
    user_healthcheck_error: _Left[str] = None
    self_test: _Left[str] = None
    records: _Left[str] = None
    degraded: _Left[list[str]] = Field(
        None, description="Of several model processes those that do not serve, each with its reason"
    )


class Report(BaseModel):
    """The report of a self-test."""

    model_config = ConfigDict(extra="allow")
    passed: _Left[bool] = None


class Document(BaseModel):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


class ExampleRequest(BaseModel):
    """An example request to the predictor."""

    name: str
    kind: Literal["predict", "train"]
    description: str
    input: dict[str, Any]


class KeyFigures(BaseModel):
    """The scopes of the request's key; without keys, all of them."""

    needed: bool
    name: str
    owner: str
    scopes: list[Literal["predict", "train", "admin"]]


class QueueFigures(BaseModel):
    """The most waiting runs of each kind."""

    most: int


class SetupFigures(BaseModel):
    """The latest setup of a worker."""

    started_at: _Maybe[datetime]
    completed_at: _Maybe[datetime]
    error: _Maybe[str]


class WorkerFigures(BaseModel):
    """A worker, and the queue before it."""

    kind: Literal["predict", "train"]
    worker: _Left[str] = Field(None, description="Its name where there are several")
    device: _Left[_Maybe[str]] = None
    state: Literal["idle", "starting", "ready", "setup failed", "crashed", "defunct", "stopped"]
    slots: int
    running: int
    waiting: int
    crashes: int
    last_crash: _Maybe[str]
    setup: SetupFigures


class ServerFigures(BaseModel):
    """The present figures of the server."""

    status: str
    key: KeyFigures
    queue: QueueFigures
    workers: list[WorkerFigures]
    model: dict[str, float]
    files: _Maybe[str]
    records: _Maybe[str]
    versions: dict[str, str]


class RunHeaders(BaseModel):
    """The client's wishes for its answer."""

    prefer: _Left[str] = Field(
        None,
        alias="Prefer",
        description="`respond-async`: answer at once. `wait=n`: after n seconds at most.",
        json_schema_extra={"example": "wait=60"},
    )
    cancel_after: _Left[str] = Field(
        None,
        alias="Cancel-After",
        description="Cancel it after this time, such as 30s, 5m or 1h.",
        json_schema_extra={"pattern": f"^(?:{DURATION})$", "example": "5m"},
    )


class PredictionOfId(BaseModel):
    """The body of a PUT: its id is in the path."""

    input: dict[str, Any] = Field(description="By the signature of the predictor.")
    webhook: _Maybe[str] = Field(
        None, description="Events are posted there.", json_schema_extra={"format": "uri"}
    )
    webhook_events_filter: _Left[list[_EventName]] = Field(
        None, description="Which events; all without it, none if it is empty."
    )
    context: _Left[dict[str, str]] = Field(None, description="Strings that run() can look at.")
    retries: int = Field(
        0, ge=0, le=10, description="How often to run again what a crash cut short; at most 10."
    )


class PredictionRequest(PredictionOfId):
    """The body of a POST."""

    id: Annotated[_Left[str], WithJsonSchema(_ID | {"nullable": True})] = None


class TrainingOfId(PredictionOfId):
    """The body of a PUT: its id is in the path."""


class TrainingRequest(PredictionRequest):
    """The body of a POST."""


_REASONS = {
    400: "The body is not JSON, or the id not UTF-8",
    404: "There is none",
    406: "This model does not stream",
    408: "The body came too slowly",
    409: "The id is in use with another input or by several owners, or all slots are",
    413: "The body is too large",
    415: "The body is not declared as JSON",
    429: "The queue or the memory is full, or the caller too fast",
    500: "The self-test could not be run, or the predictor's own file is wrong",
    503: "Not ready, or the records cannot be used",
    504: "No self-test in time",
    507: "The disk is full",
}
Responses: TypeAlias = dict[int | str, dict[str, Any]]
STREAM: Responses = {
    200: {"content": {"text/event-stream": {"schema": {"$ref": "#/components/schemas/Event"}}}}
}


def refusals(*codes: int, reasons: Mapping[int, str] | None = None) -> Responses:
    """Return the refusals of a route, for its `responses`.

    Args:
        codes: status codes.
        reasons: the reason of a code, in place of the usual reason.
    """
    said = _REASONS | dict(reasons or {})
    return {code: {"model": Error, "description": said[code]} for code in codes}
