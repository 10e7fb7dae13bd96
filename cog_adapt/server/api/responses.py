"""From what the service says to HTTP answers, in Cog's shapes."""

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.responses import PlainTextResponse, Response

from cog_adapt.server.api.body import BodyError, Refused
from cog_adapt.server.records import Record
from cog_adapt.server.schema.validation import Problem
from cog_adapt.server.service.prediction import encode


def json_answer(
    body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer with sorted keys."""
    return Response(encode(body), status, headers, "application/json")


def problems_answer(problems: list[Problem]) -> Response:
    """The answer to inputs that do not fit: FastAPI's shape, and Cog's."""
    return json_answer({"detail": problems}, 422)


def refusal_answer(refused: Refused, *, strict: bool) -> Response:
    """The answer to a request that is refused.

    Args:
        refused: why.
        strict: in plain text where Cog's is.
    """
    if strict and isinstance(refused, BodyError):
        return PlainTextResponse(refused.reason, refused.status, refused.headers)
    if refused.status == 422:
        problem = Problem(refused.location or ("body",), refused.reason, refused.kind)
        return problems_answer([problem])
    body = {"error": refused.reason, "status": "failed"}
    if refused.status == 406:
        del body["status"]  # Cog has none here
    return json_answer(body, refused.status, refused.headers)


def record_body(record: Record) -> dict[str, Any]:
    """A record as the API shows it."""
    body: dict[str, Any] = {
        "id": record.id,
        "status": record.status,
        "input": _raw(record.input or "{}"),
        "output": _raw(record.output or "null"),
        "error": record.error,
        "logs": record.logs,
        "metrics": _raw(record.metrics),
        "created_at": record.created_at,
        "started_at": record.started_at,
        "completed_at": record.completed_at,
    }
    return {name: value for name, value in body.items() if value is not None}


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())
