"""Turns the service's results and errors into HTTP answers of Cog's shapes."""

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import msgspec
import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Match

from cog_adapt.server import errors
from cog_adapt.server.records import Record
from cog_adapt.server.schema.problems import MOST_PROBLEMS, InvalidInputs, Problem, shorten
from cog_adapt.server.service.prediction import encode

STATUSES: dict[type[errors.RequestError], int] = {
    errors.InvalidPath: 400,
    errors.JsonError: 400,
    errors.Forbidden: 403,
    errors.NotFound: 404,
    errors.NoAdapters: 404,
    errors.NotStreamable: 406,
    errors.AtCapacity: 409,
    errors.IdInUse: 409,
    errors.NotEnded: 409,
    errors.TooLarge: 413,
    errors.MediaTypeError: 415,
    errors.InvalidRequest: 422,
    errors.ShapeError: 422,
    errors.BudgetSpent: 429,
    errors.QueueFull: 429,
    errors.TooManyReaders: 429,
    errors.ExamplesError: 500,
    errors.SelfTestError: 500,
    errors.AdapterError: 500,
    errors.NotReady: 503,
    errors.OwnerGone: 503,
    errors.NotRecorded: 503,
    errors.SelfTestTimeout: 504,
    errors.AdapterTimeout: 504,
    errors.DiskFull: 507,
}
_GONE = 499  # no client reads this status; nginx logs it
_REASONS = {404: "there is no such page", 405: "this method is not allowed here"}
_Handler = Callable[[Request, Any], Coroutine[Any, Any, Response]]
log = structlog.get_logger()


def json_response(
    body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a JSON answer with sorted keys."""
    return Response(
        content=encode(body), status_code=status, headers=headers, media_type="application/json"
    )


def record_body(record: Record) -> dict[str, Any]:
    """Return a record as the API shows it."""
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


def answer_body(record: Record) -> dict[str, Any]:
    """Return the body of an ended run in Cog's format, as `Prediction.answer` does."""
    body: dict[str, Any] = {"id": record.id, "logs": record.logs, "status": record.status}
    body["metrics"] = _raw(record.metrics)
    if record.status == "succeeded":
        body["output"] = _raw(record.output or "null")
    return body | ({} if record.error is None else {"error": record.error})


def _raw(text: str) -> msgspec.Raw:
    return msgspec.Raw(text.encode())


def error_response(error: errors.RequestError, *, strict: bool) -> Response:
    """Return the answer to a request that is not accepted.

    Args:
        error: the reason.
        strict: answer in plain text where Cog does.
    """
    if isinstance(error, InvalidInputs):
        return json_response({"detail": error.problems}, 422)
    status, reason = status_of(error), str(error)
    if strict and isinstance(error, errors.BodyError):
        return PlainTextResponse(reason, status)
    if isinstance(error, errors.InvalidRequest | errors.ShapeError):
        problem = Problem(error.location or ("body",), reason, error.kind)
        return json_response({"detail": [problem]}, status)
    if isinstance(error, errors.NotStreamable):
        return json_response({"error": reason}, status)  # Cog sends no status here
    headers = {}
    if error.retry_after is not None and not strict:
        headers["Retry-After"] = str(error.retry_after)
    return json_response({"error": reason, "status": "failed"}, status, headers)


def status_of(error: errors.RequestError) -> int:
    """Return the status of an error's class, or of the nearest class that it is derived from."""
    return next(STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES)


def exception_handlers(*, strict: bool) -> dict[int | type[Exception], _Handler]:
    """Return the handler of each exception.

    Args:
        strict: answer as Cog does, where this server differs.
    """

    async def refuse(_: Request, error: errors.RequestError) -> Response:
        return error_response(error, strict=strict)

    async def wait_for_storage(_: Request, error: errors.StorageError) -> Response:
        unusable = errors.NotRecorded(f"the records cannot be used: {error}")
        return error_response(unusable, strict=strict)

    async def find_no_route(request: Request, error: HTTPException) -> Response:
        is_about_method = error.status_code == 405
        headers = {"Allow": ",".join(_allowed_methods(request))} if is_about_method else {}
        if strict:
            return Response(None, error.status_code, headers)
        text = _REASONS.get(error.status_code, str(error.detail))
        return json_response({"error": text, "status": "failed"}, error.status_code, headers)

    async def name_problems(_: Request, error: RequestValidationError) -> Response:
        return json_response({"detail": _problems(error)}, 422)

    return {
        RequestValidationError: name_problems,
        errors.RequestError: refuse,
        errors.StorageError: wait_for_storage,
        ClientDisconnect: _let_go,
        HTTPException: find_no_route,
        Exception: _admit,
    }


async def _let_go(_: Request, gone: ClientDisconnect) -> Response:
    return Response(status_code=_GONE)


async def _admit(request: Request, error: Exception) -> Response:
    log.error("request failed", path=request.url.path, exc_info=error)
    return json_response({"error": "the server has a fault; see its log", "status": "failed"}, 500)


def _problems(error: RequestValidationError) -> list[Problem]:
    """Return the first problems of a body that a route checks, without its values.

    Encoding all of the 260,000 problems and values in 1 MiB would hold the event loop for 20 s.
    """
    found = error.errors()
    shown = [
        Problem(
            tuple(shorten(str(step)) for step in each["loc"]), shorten(each["msg"]), each["type"]
        )
        for each in found[:MOST_PROBLEMS]
    ]
    if len(found) > len(shown):
        more = f"{len(found) - len(shown):,} more problems. Correct these first."
        shown.append(Problem(("body",), more))
    return shown


def _allowed_methods(request: Request) -> list[str]:
    methods: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods)
