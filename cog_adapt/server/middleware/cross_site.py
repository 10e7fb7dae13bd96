"""Pages of other sites may not change anything where no key would keep them out.

A browser sends a page's POST to this server even where the page may not read the answer, and says
in `Origin` and `Sec-Fetch-Site` which page it was. Other clients send neither, and are let in.
"""

from collections.abc import Iterable

from starlette.types import ASGIApp, Receive, Scope, Send

from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.middleware.responses import AsgiResponse

_READ_ONLY = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSAL = AsgiResponse.in_json(
    403,
    "A page of another site may not do this. Name its origin in CORS_ORIGINS, or set API keys.",
)


class CrossSiteMiddleware:
    """Refuses what a page of another site would change.

    Args:
        app: the application.
        allowed: origins whose pages may.
    """

    def __init__(self, app: ASGIApp, allowed: Iterable[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "http" and self._is_foreign(scope):
            note_refusal(scope, "a page of another site")
            await _REFUSAL.send(send)
        else:
            await self._app(scope, receive, send)

    def _is_foreign(self, scope: Scope) -> bool:
        if scope["method"] in _READ_ONLY or "*" in self._allowed:
            return False
        origins, host, site = [], "", ""
        for name, value in scope["headers"]:
            if name == b"origin":
                origins.append(value.decode("latin-1").lower())
            elif name == b"host":
                host = value.decode("latin-1").lower()
            elif name == b"sec-fetch-site":
                site = value.decode("latin-1").lower()
        if not origins:
            return site in ("cross-site", "same-site")
        return any(
            origin not in self._allowed and origin.partition("://")[2] != (host or None)
            for origin in origins
        )
