"""Serves the playground: a page at `/` for browsers, and at `/playground` for all clients.

The page is open and holds no data: its requests need a key if keys are set.
"""

from pathlib import Path
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from cog_adapt.server.api.dependencies import parts_of
from cog_adapt.server.api.page_files import PAGE, PageFile, PageFiles
from cog_adapt.server.errors import NotFound
from cog_adapt.server.middleware.accepting import header_of, wants_page, weights

_NOT_BUILT = "the playground is not built: run `make page`, which needs Node.js."
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_CLOSED = "default-src 'none'; frame-ancestors 'none'"
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src {sources}; "
    "media-src {sources}; font-src 'self'; connect-src 'self' data: blob:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types lit-html"
)
# no other host, which would learn from an output who looks at it
_OWN_SOURCES = "'self' data: blob:"
_CHECKED = "no-cache"
_KEPT = "public, max-age=31536000, immutable"


class PageRoutes:
    """The routes of the page.

    Args:
        folder: of its files; by default the package's own.
    """

    def __init__(self, folder: Path = PAGE) -> None:
        self._files = PageFiles.read(folder)

    def routes(self) -> list[BaseRoute]:
        """Return the routes; that of `/` matches only requests for a page."""
        return [
            _BrowserRoute("/", self.page),
            Route("/playground", self.page),
            Route("/playground/", self.without_slash),
            Route("/playground/assets/{name}", self.asset),
        ]

    async def page(self, request: Request) -> Response:
        """Return the page."""
        if self._files.index is None:
            raise NotFound(_NOT_BUILT)
        policy = policy_of(parts_of(request).upload_url)
        return _answer(request=request, file=self._files.index, kept=_CHECKED, policy=policy)

    async def without_slash(self, request: Request) -> Response:
        """Redirect to the address from which the page's relative addresses are right."""
        return RedirectResponse("../playground", headers=SAFE)

    async def asset(self, request: Request) -> Response:
        """Return a file of the page."""
        name = request.path_params["name"]
        file = self._files.assets.get(name)
        if file is None:
            raise NotFound(f"the playground has no file {name[:80]!r}. Load the page again.")
        return _answer(request=request, file=file, kept=_KEPT, policy=_CLOSED)


class _BrowserRoute(Route):
    """A route for browsers only."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match requests that ask for a page."""
        match, child = super().matches(scope)
        is_asked = match is Match.FULL and wants_page(scope)
        return (match, child) if is_asked else (Match.NONE, {})


def policy_of(upload_url: str | None) -> str:
    """Return the Content-Security-Policy of the page.

    Args:
        upload_url: output files are PUT below this URL, and the page may show its origin; None:
            there is none.
    """
    origin = origin_of(upload_url)
    return _POLICY.format(sources=f"{_OWN_SOURCES} {origin}" if origin else _OWN_SOURCES)


def origin_of(upload_url: str | None) -> str | None:
    """Return the origin of output files that browsers can load, or None."""
    place = urlsplit(upload_url or "")
    if place.scheme not in ("http", "https"):
        return None
    return f"{place.scheme}://{place.netloc.rpartition('@')[2]}"


def _answer(request: Request, file: PageFile, kept: str, policy: str) -> Response:
    headers = {
        **SAFE,
        "Content-Security-Policy": policy,
        "Cache-Control": kept,
        "ETag": file.etag,
        "Vary": "Accept, Accept-Encoding",
    }
    sent = request.scope["headers"]
    if _has(file.etag, header_of(sent, b"if-none-match")):
        return Response(None, 304, headers)
    if weights(header_of(sent, b"accept-encoding")).get("gzip", 0) > 0:
        return Response(
            content=file.zipped,
            status_code=200,
            headers={**headers, "Content-Encoding": "gzip"},
            media_type=file.media_type,
        )
    return Response(
        content=file.content, status_code=200, headers=headers, media_type=file.media_type
    )


def _has(etag: str, known: str) -> bool:
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or etag.removeprefix("W/") in tags
