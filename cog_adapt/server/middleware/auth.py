"""Access control: API keys, and the routes that each opens."""

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from cog_adapt.server.middleware.access import ANY_KEY, READINESS, is_liveness, need_of
from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.middleware.keys import KeyRing
from cog_adapt.server.middleware.responses import AsgiResponse

_NO_KEY = AsgiResponse.in_json(
    401,
    "This server needs an API key: send it as 'Authorization: Bearer KEY'.",
    ((b"www-authenticate", b"Bearer"),),
)
_WRONG_KEY = AsgiResponse.in_json(
    401,
    "The API key is unknown or has expired. Ask the operator for a new one.",
    ((b"www-authenticate", b'Bearer error="invalid_token"'),),
)


class AuthMiddleware:
    """Admits requests with a key for the route.

    `state` then holds the `key`, and its owner as `caller`.

    Args:
        app: the application.
        keys: of the operator.
        is_open: returns whether a request needs no key.
    """

    def __init__(
        self,
        app: ASGIApp,
        keys: KeyRing,
        is_open: Callable[[Connection], bool] = is_liveness,
    ) -> None:
        self._app = app
        self._keys = keys
        self._is_open = is_open

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        refused = self._refusal(scope) if scope["type"] == "http" else None
        if refused is not None:
            why, answer = refused
            note_refusal(scope, why)
            await answer.send(send)
        else:
            await self._app(scope, receive, send)

    def _refusal(self, scope: Connection) -> tuple[str, AsgiResponse] | None:
        """Return the reason of a refusal, in a few words, and the answer; None: admitted."""
        offered = _offered_key(scope)
        if self._is_open(scope) and (offered is None or scope["path"] != READINESS):
            return None
        if offered is None:
            return "no key", _NO_KEY
        key = self._keys.find(offered)
        if key is None:
            return "unknown or expired key", _WRONG_KEY
        scope.setdefault("state", {}).update(caller=key.owner, key=key)
        need = need_of(scope["method"], scope["path"])
        if need == ANY_KEY or key.opens(need):
            return None
        return f"lacks the scope {need}", AsgiResponse.in_json(
            403,
            f"The API key {key.name!r} lacks the scope {need!r} that "
            f"{scope['method']} {scope['path']} needs. Ask the operator for one that has it.",
        )


def _offered_key(scope: Connection) -> bytes | None:
    for name, value in scope["headers"]:
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return bytes(value[7:].strip())
        if name == b"x-api-key":
            return bytes(value)
    return None
