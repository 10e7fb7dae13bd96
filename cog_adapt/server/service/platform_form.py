"""The form of a prediction or training in Replicate's API, from its record."""

from datetime import datetime
from typing import Any
from urllib.parse import quote

import msgspec

from cog_adapt.server.protocol import NOUNS
from cog_adapt.server.records import Record
from cog_adapt.server.webhooks import shown_url


class Origin(msgspec.Struct, frozen=True):
    """What a request by Replicate's API named.

    Attributes:
        base: the server's address in URLs, without a slash at its end.
        model: `owner/name`.
        version: of the model; an adapter's id, its name, or NAME@vN.
        destination: `owner/name` that a training is to become.
    """

    base: str
    model: str
    version: str
    destination: str | None = None


def origin_of(record: Record, default: Origin) -> Origin:
    """Return what the request of a record named; the default for a record of Cog's API."""
    if record.origin is None:
        return default
    return msgspec.json.decode(record.origin, type=Origin)


def platform_body(record: Record, origin: Origin | None = None) -> dict[str, Any]:
    """Return a prediction or training with all fields that Replicate's clients require.

    Args:
        record: with or without an origin.
        origin: in place of the record's own; needed if the record has none.
    """
    origin = origin or msgspec.json.decode(record.origin or "", type=Origin)
    url = f"{origin.base}/v1/{NOUNS[record.kind]}s/{quote(record.id, safe='')}"
    body: dict[str, Any] = {
        "id": record.id,
        "model": origin.model,
        "version": origin.version,
        "status": record.status,
        "source": "api",
        "input": msgspec.Raw((record.input or "{}").encode()),
        "output": _output(record, origin),
        "logs": record.logs,
        "error": record.error,
        "metrics": _metrics(record),
        "data_removed": False,
        "created_at": record.created_at,
        "started_at": record.started_at,
        "completed_at": record.completed_at,
        "urls": {"get": url, "cancel": f"{url}/cancel", "web": url},
    }
    if record.kind == "train":
        body["destination"] = origin.destination
    if record.deadline is not None:
        body["deadline"] = record.deadline
    if record.webhook is not None:
        body["webhook"] = shown_url(record.webhook)
        body["webhook_events_filter"] = record.webhook_events
    return body


def trained_adapter(record: Record) -> str | None:
    """Return the id of the adapter that a training has made, as its report names it."""
    output = msgspec.json.decode(record.output or "null")
    report = output.get("report") if isinstance(output, dict) else None
    adapter = report.get("adapter") if isinstance(report, dict) else None
    return adapter if isinstance(adapter, str) and adapter else None


def _output(record: Record, origin: Origin) -> object:
    adapter = trained_adapter(record) if record.kind == "train" else None
    if adapter is None:
        return msgspec.Raw((record.output or "null").encode())
    made = origin.destination or origin.model
    output: dict[str, Any] = msgspec.json.decode(record.output or "{}")
    return output | {"version": f"{made}:{adapter}"}


def _metrics(record: Record) -> dict[str, Any]:
    metrics: dict[str, Any] = msgspec.json.decode(record.metrics)
    return metrics | _total(record.created_at, record.completed_at)


def _total(created_at: datetime, completed_at: datetime | None) -> dict[str, float]:
    if completed_at is None:
        return {}
    return {"total_time": (completed_at - created_at).total_seconds()}
