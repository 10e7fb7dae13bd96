"""Ids in paths as clients wrote them.

Servers decode a path before it is routed, so that the id `a%2Fb` would look like two segments.
Here routes see segments still encoded where they hold a slash, and handlers decode them.
"""

from starlette.types import ASGIApp, Receive, Scope, Send


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
