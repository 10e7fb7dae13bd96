"""One prediction or training in flight: its state, and its form in answers to clients."""

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from cog_adapt.server.protocol import OWNER_KEY, Finished, Kind, MetricMode
from cog_adapt.server.schema.problems import Problem
from cog_adapt.server.service.affinity import Affinity
from cog_adapt.server.service.events import EventLog
from cog_adapt.server.service.metric_values import put_metric
from cog_adapt.server.service.output_blocks import add_item
from cog_adapt.server.shares.budget import Budget

State = Literal["starting", "processing", "succeeded", "failed", "canceled"]
FINAL: frozenset[str] = frozenset(("succeeded", "failed", "canceled"))
WebhookEvent = Literal["start", "output", "logs", "completed"]
ALL_EVENTS: frozenset[str] = frozenset(("start", "output", "logs", "completed"))

_KILLS_BEFORE_ALONE = 2
_encoder = msgspec.json.Encoder(order="sorted")


def encode(body: object) -> bytes:
    """Encode as JSON with sorted keys, as Cog does."""
    return _encoder.encode(body)


def digest_of(inputs: bytes) -> str:
    """Return the SHA-256 of inputs as sorted JSON, in hex."""
    return hashlib.sha256(inputs).hexdigest()


def new_id() -> str:
    """Make an id in Cog's style."""
    return f"pred_{time.time_ns():x}"


def now() -> datetime:
    """Return the time, in UTC."""
    return datetime.now(UTC)


class PredictionSpec(msgspec.Struct, frozen=True):
    """A client's request.

    Attributes:
        id: the id of the prediction.
        kind: prediction or training.
        input: the model's input as JSON.
        redacted_input: the input with its secrets redacted, for records.
        context: strings for run().
        webhook: the URL for events; None: the server sends no events.
        events: the events to send to `webhook`.
        durable: whether the request must survive this process, because no client waits for the
            answer.
        has_client_id: whether the client chose the id, and may repeat it.
        repeatable: whether the record may hold everything needed to run the request (no secrets).
        retries: the number of further runs after a crash.
        timeout: seconds until the prediction is cancelled; None: unlimited.
        headers: the request's headers to pass on to webhooks (tracing).
        created_at: the time of acceptance, from which `timeout` counts; None: now.
        digest: the digest of the input, to recognise an equal request.
        problems: the problems of the input; None until the input has been checked.
        is_stream: whether the answer is events as they come.
        is_async: whether the answer comes at once, before the end.
        wait: seconds to wait for the end, at most; None: unlimited.
        origin: what a request of another protocol named, as JSON; None for Cog's.
    """

    id: str
    kind: Kind
    input: bytes
    redacted_input: bytes
    context: dict[str, str] = {}
    webhook: str | None = None
    events: frozenset[str] = ALL_EVENTS
    durable: bool = False
    has_client_id: bool = False
    repeatable: bool = True
    retries: int = 0
    timeout: float | None = None
    headers: Mapping[str, str] = {}
    created_at: datetime | None = None
    digest: str = ""
    problems: Sequence[Problem] | None = ()
    is_stream: bool = False
    is_async: bool = False
    wait: float | None = None
    origin: str | None = None

    @property
    def owner(self) -> str:
        """The owner of the request's API key; empty if no keys are set."""
        return self.context.get(OWNER_KEY, "")

    @property
    def key(self) -> tuple[Kind, str, str]:
        """Kind, id and owner, also of its record. Two owners may choose the same id."""
        return self.kind, self.id, self.owner

    @property
    def run_id(self) -> str:
        """The worker's name for it: ids alone are not unique, as two owners may choose the same.

        A training's may run beside a prediction with the same id.
        """
        if self.kind == "train":
            return f"+/{self.owner}/{self.id}"  # no owner's name has a slash or begins with a plus
        is_alone = not self.owner and "/" not in self.id
        return self.id if is_alone else f"{self.owner}/{self.id}"

    @property
    def size(self) -> int:
        """Bytes of its input in memory."""
        return len(self.input) + len(self.redacted_input)

    @property
    def recoverable(self) -> bool:
        """Whether another server could run the request from its record."""
        return self.durable and self.repeatable

    @property
    def movable(self) -> bool:
        """Whether an idle server may take it while it waits.

        A client that waits for a time learns of its end there, and does not end it by leaving.
        """
        return self.recoverable and (self.is_async or self.wait is not None)

    def wants(self, event: str) -> bool:
        """Return whether the webhook is called for this event."""
        return self.webhook is not None and event in self.events


class Prediction:
    """One run of the model, from its acceptance to its end.

    Args:
        request: what is to be run.
        history: the most events that are kept.
        events: the budget of their bytes.
        taken_over: the number of this run among those that this server has taken over; 0: it was
            accepted here.

    Attributes:
        done: resolved when the prediction has ended and its slot is free.
        answer_bytes: of its output, logs and metrics.
        overflow: the reason for giving it up if its answer takes too much memory; else None.
        run_id: the worker's name for this run. One that comes back from another server has another
            name here than its canceled run, which may not have ended yet.
        has_moved: whether another server has taken it: it ends here without an end.
        crashes: the number of worker crashes while it ran.
        outside_kills: how often another program killed the worker while it ran.
        affinity: what makes one worker quicker than another; None until it has been read.
    """

    def __init__(
        self,
        request: PredictionSpec,
        history: int,
        events: Budget | None = None,
        taken_over: int = 0,
    ) -> None:
        self.request = request
        self.id = request.id
        self.key = request.key
        self.run_id = f"+{taken_over}/{request.run_id}" if taken_over else request.run_id
        self.status: State = "starting"
        self.created_at = request.created_at or now()
        self.started_at: datetime | None = None
        self.completed_at: datetime | None = None
        self.error: str | None = None
        self.retries_left = request.retries
        self.events = EventLog(
            history, events, request.owner, first=_first_number(request.created_at)
        )
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_cancelled = self.has_moved = False
        self.crashes = self.outside_kills = self.answer_bytes = 0
        self.overflow: str | None = None
        self.written: asyncio.Task[None] | None = None
        self.affinity: Affinity | None = None
        self._accepted = time.monotonic()
        self.waited = 0.0
        self._begin()

    def _begin(self) -> None:
        self.outputs: list[msgspec.Raw] = []
        self.is_list = False
        self._count = 0
        self._logs: list[str] = []
        self.metrics: dict[str, Any] = {}

    @property
    def is_final(self) -> bool:
        """Whether the prediction has ended."""
        return self.status in FINAL

    @property
    def must_run_alone(self) -> bool:
        """Whether it must run alone: it may be the reason of a crash, or others slow it too much.

        Where processes are killed every few seconds, long runs beside each other would never end.
        """
        return bool(self.crashes) or self.outside_kills >= _KILLS_BEFORE_ALONE

    @property
    def is_movable(self) -> bool:
        """Whether an idle server may take it: it waits, and need not run alone here."""
        return self.request.movable and not (self.must_run_alone or self.is_final)

    @property
    def age(self) -> float:
        """Seconds since the prediction was accepted."""
        return time.monotonic() - self._accepted

    @property
    def logs(self) -> str:
        """Everything printed so far."""
        self._logs = ["".join(self._logs)]
        return self._logs[0]

    def start(self) -> None:
        """Record that the model has begun."""
        self.status = "processing"
        self.started_at = now()
        self.waited = self.age
        self.events.append("start", encode({"id": self.id, "status": "processing"}))

    def begin_again(self) -> None:
        """Reset the prediction after a crash, so that it runs once more."""
        self.status = "starting"
        self.started_at = None
        self.retries_left -= 1
        self.answer_bytes = 0
        self._begin()

    def add_log(self, source: str, data: str) -> None:
        """Add a log line of the model."""
        self._logs.append(data)
        self.events.append("log", encode({"source": source, "data": data}))

    def add_output(self, chunk: bytes) -> None:
        """Add an output item of the model, as JSON."""
        raw = msgspec.Raw(chunk)
        self.events.append("output", encode({"chunk": raw, "index": self._count}))
        self._count += 1
        add_item(self.outputs, raw, self._count)

    def add_metric(self, name: str, value: bytes, mode: MetricMode) -> Any:  # noqa: ANN401
        """Record a metric of the model. Return its value, decoded."""
        decoded = msgspec.json.decode(value)
        put_metric(metrics=self.metrics, name=name, value=decoded, mode=mode)
        self.events.append("metric", encode({"name": name, "value": decoded, "mode": mode}))
        return decoded

    def finish(self, end: Finished) -> None:
        """Record the end; `done` is set by the code that frees the slot."""
        self.status = end.status
        self.error = end.error
        self.is_list = end.is_list
        self.completed_at = now()
        self.metrics["predict_time"] = end.predict_time

    async def settle(self) -> None:
        """Wait until the end is written, or has turned out to be another server's (`has_moved`)."""
        if self.written is not None:
            await asyncio.shield(self.written)

    def close(self) -> None:
        """Release the readers of its events and the requests that wait for its end."""
        self.events.close()
        if not self.done.done():
            self.done.set_result(None)

    @property
    def output(self) -> msgspec.Raw | list[msgspec.Raw] | None:
        """The output so far: a list, one value, or None."""
        if self.is_list or not self.is_final:
            return self.outputs
        return self.outputs[0] if self.outputs else None

    def answer(self) -> dict[str, Any]:
        """Return the response body of a finished prediction, in Cog's format."""
        body: dict[str, Any] = {
            "id": self.id,
            "logs": self.logs,
            "metrics": self.metrics,
            "status": self.status,
        }
        if self.status == "succeeded":
            body["output"] = self.output
        if self.error is not None:
            body["error"] = self.error
        return body

    def account(self) -> dict[str, Any]:
        """Return the body for readers that follow it, with its output so far."""
        return self.answer() | ({"output": self.output} if self.outputs else {})

    def completed(self) -> bytes:
        """Return the data of the event that ends its stream."""
        return encode(self.account())

    def progress(self) -> dict[str, Any]:
        """Return Cog's body for a PUT whose id is still running."""
        return self.account() | {"input": msgspec.Raw(self.request.redacted_input)}


def _first_number(accepted_at: datetime | None) -> int:
    """Return the number of the first event of a run that goes on at another server.

    It is above all earlier ones, of which there are fewer than one a millisecond, so that readers
    who return with the last number that they saw miss nothing.
    """
    if accepted_at is None:
        return 1
    return 1 + max(0, int((now() - accepted_at).total_seconds() * 1000))
