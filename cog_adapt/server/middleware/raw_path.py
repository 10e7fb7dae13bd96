"""Ids in paths as clients wrote them.

Servers decode a path before it is routed, so that the id `a%2Fb` would look like two segments.
Here routes see segments still encoded where they hold a slash, and handlers decode them.
"""

from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from cog_adapt.server.api.body import Refused


class RawPathMiddleware:
    """An application whose routes match the path before `%2F` becomes a slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        raw: bytes = scope.get("raw_path") or b""
        if b"%" in raw:
            scope = {**scope, "path": raw.decode("ascii", errors="replace")}
        await self._app(scope, receive, send)


def name_in(request: Request) -> str:
    """The id in a request's path.

    Raises:
        Refused: 400, it is no UTF-8.
    """
    name: str = request.path_params["name"]
    try:
        return unquote(name, errors="strict")
    except UnicodeDecodeError as error:
        raise Refused(400, "Invalid URL: Invalid UTF-8 in `id`") from error
