"""Recognises requests that another server of the same database has passed on.

A request with the header is never passed on again, whoever wrote it. Only one with this server's
token, which the database alone tells, was admitted by another server.
"""

import hmac
from collections.abc import Awaitable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

PASSED_ON: Final = b"cog-adapt-passed-on"
_STATE: Final = "passed_on"


class PeerCallsMiddleware:
    """Notes in a request's state whether it has been passed on, and by a server.

    Args:
        app: the application.
        token: of this server.
    """

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Serve a connection; no coroutine of its own, since every request passes here."""
        headers = scope["headers"] if scope["type"] == "http" else ()
        shown = [value for name, value in headers if name == PASSED_ON]
        if shown:
            is_known = hmac.compare_digest(shown[0], self._token)
            scope.setdefault("state", {})[_STATE] = is_known
        return self._app(scope, receive, send)


def was_passed_on(scope: Scope) -> bool:
    """Return whether a request says that it has been passed on."""
    return _STATE in scope.get("state", {})


def is_from_peer(scope: Scope) -> bool:
    """Return whether another server of the database has admitted a request, and passed it on."""
    return bool(scope.get("state", {}).get(_STATE))
