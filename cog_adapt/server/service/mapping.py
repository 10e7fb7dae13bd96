"""Converts predictions to database records, and records back to requests."""

import uuid
from datetime import datetime, timedelta
from typing import Any

import msgspec

from cog_adapt.server.protocol import ADMIN_KEY, Kind, owned
from cog_adapt.server.records import Record
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.service.platform_form import platform_body
from cog_adapt.server.service.prediction import (
    Prediction,
    PredictionSpec,
    digest_of,
    encode,
    now,
)
from cog_adapt.server.webhooks import shown_url


class Payload(msgspec.Struct):
    """The parts of a request that a record keeps, so that it can run after a restart.

    Attributes:
        is_admin: separate from the context, in which callers of older versions could write
            anything.
    """

    input: msgspec.Raw
    context: dict[str, str]
    headers: dict[str, str]
    is_admin: bool = False


def _delivery_id(key: tuple[Kind, str, str], created_at: datetime) -> str:
    """Return one id for the end of a run on every server, so that it is announced once."""
    kind, name, owner = key
    whole = f"{kind} {name} {created_at.timestamp():.6f}{f' {owner}' if owner else ''}"
    return str(uuid.uuid5(uuid.NAMESPACE_OID, whole))


def completed_delivery(prediction: Prediction, headers: dict[str, str]) -> Delivery:
    """Make the delivery of a prediction's last webhook."""
    return Delivery(
        id=_delivery_id(prediction.key, prediction.created_at),
        record_id=prediction.id,
        kind=prediction.request.kind,
        owner=prediction.request.owner,
        event="completed",
        url=prediction.request.webhook or "",
        body=webhook_body(prediction).decode(),
        created_at=now(),
        headers=encode(headers).decode(),
        next_attempt_at=now(),
    )


def orphan_delivery(record: Record) -> Delivery:
    """Make the delivery for a prediction that is known only from its record."""
    body = _orphan_body(record) if record.origin is None else platform_body(record)
    return Delivery(
        id=_delivery_id((record.kind, record.id, record.owner), record.created_at),
        record_id=record.id,
        kind=record.kind,
        owner=record.owner,
        event="completed",
        url=record.webhook or "",
        body=encode(body).decode(),
        created_at=now(),
        next_attempt_at=now(),
    )


def webhook_body(prediction: Prediction) -> bytes:
    """Return what a webhook is told of a prediction: the whole of it, for Replicate's clients."""
    if prediction.request.origin is None:
        return prediction.completed()
    return encode(platform_body(to_record(prediction)))


def _orphan_body(record: Record) -> dict[str, Any]:
    raw = {"logs": record.logs, "id": record.id, "status": record.status, "error": record.error}
    body = raw | {"metrics": msgspec.Raw(record.metrics.encode())}
    return body | ({"output": msgspec.Raw(record.output.encode())} if record.output else {})


def to_record(prediction: Prediction) -> Record:
    """Convert a prediction to its record."""
    request = prediction.request
    output = prediction.output if prediction.outputs or prediction.is_list else None
    shows_output = prediction.outputs or prediction.status == "succeeded"
    deadline = (
        prediction.created_at + timedelta(seconds=request.timeout) if request.timeout else None
    )
    return Record(
        id=request.id,
        kind=request.kind,
        status=prediction.status,
        created_at=prediction.created_at,
        started_at=prediction.started_at,
        completed_at=prediction.completed_at,
        input=request.redacted_input.decode(),
        payload=None if prediction.is_final else _payload(request),
        input_digest=request.digest,
        output=_text_of(output) if shows_output else None,
        logs=prediction.logs,
        metrics=encode(prediction.metrics).decode(),
        error=prediction.error,
        webhook=_webhook_of(prediction),
        webhook_events=tuple(sorted(request.events)) if request.webhook else None,
        retries_left=prediction.retries_left,
        deadline=deadline,
        origin=request.origin,
        movable=prediction.is_movable,
        owner=request.owner,
    )


def _text_of(output: msgspec.Raw | list[msgspec.Raw] | None) -> str:
    """Return an output as JSON; one large value is copied once."""
    if isinstance(output, msgspec.Raw):
        return str(memoryview(output), "utf-8")
    return encode(output).decode()


def _webhook_of(prediction: Prediction) -> str | None:
    """Return its webhook's URL; an ended prediction needs it only in its delivery."""
    url = prediction.request.webhook
    return shown_url(url) if url is not None and prediction.is_final else url


def _payload(request: PredictionSpec) -> str | None:
    if not request.recoverable:
        return None
    content = Payload(
        msgspec.Raw(request.input),
        request.context,
        dict(request.headers),
        is_admin=ADMIN_KEY in request.context,
    )
    return msgspec.json.encode(content).decode()


def to_request(record: Record) -> PredictionSpec | None:
    """Restore the request from a record, or return None if the record lacks it."""
    if record.payload is None:
        return None
    payload = msgspec.json.decode(record.payload, type=Payload)
    seconds = None
    if record.deadline is not None:
        seconds = (record.deadline - record.created_at).total_seconds()
    inputs = bytes(payload.input)
    return PredictionSpec(
        id=record.id,
        kind=record.kind,
        input=inputs,
        redacted_input=(record.input or "{}").encode(),
        context=owned(payload.context, record.owner, is_admin=payload.is_admin),
        webhook=record.webhook,
        events=frozenset(record.webhook_events or ()),
        durable=True,
        is_async=True,  # whoever waited for it has lost the connection
        retries=record.retries_left,
        timeout=seconds,
        headers=payload.headers,
        created_at=record.created_at,
        digest=record.input_digest or digest_of(inputs),
        origin=record.origin,
    )
