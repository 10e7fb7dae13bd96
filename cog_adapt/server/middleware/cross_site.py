"""Keeps other sites' pages from changing anything while no key protects the server.

A browser sends a page's POST to this server even if the page may not read the answer, and names the
page in `Origin` and `Sec-Fetch-Site`. Other clients send neither header, and are admitted.
"""

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.middleware.responses import AsgiResponse

_READ_ONLY = frozenset({"GET", "HEAD", "OPTIONS"})
_ANOTHER = "another site"
_SHOWN = 100


class CrossSiteMiddleware:
    """Refuses changes by pages of other sites.

    Args:
        app: the application.
        allowed: origins whose pages may make changes.
    """

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        foreign = self._find_foreign(scope) if scope["type"] == "http" else None
        if foreign is None:
            await self._app(scope, receive, send)
            return
        note_refusal(scope, "a page of another site")
        remedy = "Name its origin in CORS_ORIGINS, or set API keys."
        answer = AsgiResponse.in_json(403, f"A page of {foreign} may not do this. {remedy}")
        await answer.send(send)

    def _find_foreign(self, scope: Scope) -> str | None:
        """Return the site of the page that sent a forbidden request; None if it is allowed."""
        if scope["method"] in _READ_ONLY or "*" in self._allowed:
            return None
        origins, host, site = [], "", ""
        for name, value in scope["headers"]:
            if name == b"origin":
                origins.append(value.decode("latin-1").lower())
            elif name == b"host":
                host = value.decode("latin-1").lower()
            elif name == b"sec-fetch-site":
                site = value.decode("latin-1").lower()
        if not origins:
            return _ANOTHER if site in ("cross-site", "same-site") else None
        foreign = (
            repr(origin[:_SHOWN])
            for origin in origins
            if origin not in self._allowed and origin.partition("://")[2] != (host or None)
        )
        return next(foreign, None)
