"""Counts and times every request, by route, and keeps its path as the client wrote it.

Servers decode a path before it is routed, so that the id `a%2Fb` would look like two segments. Here
routes see a segment still encoded if it holds a slash, and handlers decode it.
"""

from time import perf_counter

from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cog_adapt.server.telemetry.metrics import Metrics

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_GONE = 499  # nginx logs this status for a client that left before its answer


class MetricsMiddleware:
    """An application, counted in `metrics`; unknown routes and methods count as `other`."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics
        self._templates: dict[tuple[object, str], str] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer as the application does."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw: bytes = scope.get("raw_path") or b""
        if b"%" in raw:
            scope = {**scope, "path": raw.decode("ascii", errors="replace")}
        status, started = _GONE, perf_counter()

        async def send_noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_noting)
        except Exception:
            status = 500
            raise
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._metrics.http(
                method=method,
                route=self._find_route(scope),
                status=status,
                seconds=perf_counter() - started,
            )

    def _find_route(self, scope: Scope) -> str:
        endpoint = scope.get("endpoint")
        # a request with a wrong method has an endpoint, but no route
        key = endpoint, scope["method"]
        template = self._templates.get(key)
        if template is None:
            template = _find_route(scope)
            if template != "other" and _is_of_one_route(endpoint, scope):
                self._templates[key] = template
        return template


def _find_route(scope: Scope) -> str:
    """Return the template of the route; Starlette's own routes record only their endpoint."""
    route = scope.get("route") or _search_route(scope)
    template = getattr(route, "path_format", None) or getattr(route, "path", None)
    return template if isinstance(template, str) else "other"


def _is_of_one_route(endpoint: object, scope: Scope) -> bool:
    endpoints = [getattr(each, "endpoint", None) for each in scope["app"].routes]
    return endpoints.count(endpoint) == 1


def _search_route(scope: Scope) -> object:
    endpoint = scope.get("endpoint")
    if endpoint is None:
        return None
    candidates = (each for each in scope["app"].routes if getattr(each, "endpoint", 0) == endpoint)
    return next((each for each in candidates if each.matches(scope)[0] is Match.FULL), None)
