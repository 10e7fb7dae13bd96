"""What is raised, and its answer: one table."""

from collections.abc import Callable, Coroutine
from typing import Any

import structlog
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from cog_adapt.server.api.body import Refused
from cog_adapt.server.api.requests import InvalidInputs
from cog_adapt.server.api.responses import json_answer, problems_answer, refusal_answer
from cog_adapt.server.errors import StorageError

_GONE = 499  # nobody reads it; nginx writes it so
_REASONS = {404: "there is no such page", 405: "this method is not allowed here"}
log = structlog.get_logger()


def _is_strict(request: Request) -> bool:
    return bool(request.app.state.settings.strict_cog)


async def _refuse(request: Request, refused: Refused) -> Response:
    return refusal_answer(refused, strict=_is_strict(request))


async def _list_problems(_: Request, invalid: InvalidInputs) -> Response:
    return problems_answer(invalid.problems)


async def _wait_for_storage(request: Request, error: StorageError) -> Response:
    refused = Refused(503, f"the records cannot be used: {error}")
    return refusal_answer(refused, strict=_is_strict(request))


async def _let_go(_: Request, gone: ClientDisconnect) -> Response:
    return Response(status_code=_GONE)


async def _find_no_route(request: Request, error: HTTPException) -> Response:
    is_about_method = error.status_code == 405
    headers = {"Allow": ",".join(_allowed_methods(request))} if is_about_method else {}
    if _is_strict(request):
        return Response(None, error.status_code, headers)
    text = _REASONS.get(error.status_code, str(error.detail))
    return json_answer({"error": text, "status": "failed"}, error.status_code, headers)


async def _admit(request: Request, error: Exception) -> Response:
    log.error("request failed", path=request.url.path, exc_info=error)
    return json_answer({"error": "the server has a fault; see its log", "status": "failed"}, 500)


def _allowed_methods(request: Request) -> list[str]:
    methods: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= getattr(route, "methods", None) or set()
    return sorted(methods)


ANSWERS: dict[int | type[Exception], Callable[[Request, Any], Coroutine[Any, Any, Response]]] = {
    Refused: _refuse,
    InvalidInputs: _list_problems,
    StorageError: _wait_for_storage,
    ClientDisconnect: _let_go,
    HTTPException: _find_no_route,
    Exception: _admit,
}
