"""The door of the front process: who may come in, how often, and with how much.

All of it is plain ASGI around the application, so that a route added later is behind it too.
"""

from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as Connection

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.access import ANY_KEY, OPEN, need_of
from cog_adapt.server.middleware.body_limit import BodyLimitMiddleware
from cog_adapt.server.middleware.keys import KeyRing
from cog_adapt.server.middleware.rate_limit import RateLimitMiddleware, read_rates
from cog_adapt.server.middleware.responses import AsgiResponse
from cog_adapt.server.settings import Settings

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


def protect(app: ASGIApp, settings: Settings) -> ASGIApp:
    """The application behind the parts of the door that are set, body limits always.

    Raises:
        ConfigError: API_KEYS_FILE, RATE_LIMIT or CORS_ORIGINS is wrong.
    """
    app = BodyLimitMiddleware(
        app,
        max_bytes=settings.max_body_bytes,
        pause_seconds=settings.body_seconds,
        in_text=settings.strict_cog,
    )
    if settings.rate_limit:
        app = RateLimitMiddleware(app, read_rates(settings.rate_limit))
    if settings.api_keys_file:
        app = AuthMiddleware(app, KeyRing(settings.api_keys_file))
    if settings.cors_origins:
        # outermost: a browser's preflight carries no key, and a page may read a refusal
        app = _allow_origins(app, settings.cors_origins)
    return app


class AuthMiddleware:
    """Lets in who has a key for the route.

    `state` then holds the `key`, and its name as `caller`.
    """

    def __init__(self, app: ASGIApp, keys: KeyRing) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        refusal = self._why_not(scope) if scope["type"] == "http" else None
        if refusal is not None:
            await refusal.send(send)
        else:
            await self._app(scope, receive, send)

    def _why_not(self, scope: Connection) -> AsgiResponse | None:
        if scope["path"] in OPEN:
            return None
        offered = _offered_key(scope)
        if offered is None:
            return _NO_KEY
        key = self._keys.find(offered)
        if key is None:
            return _WRONG_KEY
        scope.setdefault("state", {}).update(caller=key.name, key=key)
        need = need_of(scope["method"], scope["path"])
        if need == ANY_KEY or key.opens(need):
            return None
        return AsgiResponse.in_json(
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


def _allow_origins(app: ASGIApp, origins: tuple[str, ...]) -> ASGIApp:
    for origin in origins:
        parts = urlsplit(origin)
        whole = f"{parts.scheme}://{parts.netloc}"
        if origin != "*" and (
            origin != whole or not parts.netloc or parts.scheme not in ("http", "https")
        ):
            raise ConfigError(
                f"CORS_ORIGINS has {origin!r}; write '*' or origins such as https://example.com, "
                "without a path."
            )
    return CORSMiddleware(
        app,
        allow_origins=origins,
        allow_methods=["GET", "POST", "PUT"],
        allow_headers=["*"],
        expose_headers=["Retry-After", "Idempotent-Replayed"],
    )
