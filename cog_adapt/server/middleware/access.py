"""The scope that each route needs; a route outside the table needs `admin`."""

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal

from starlette.types import Scope as Connection

from cog_adapt.server.middleware.accepting import wants_page
from cog_adapt.server.middleware.keys import Scope
from cog_adapt.server.middleware.platform_routes import PLATFORM_NEEDS, is_signed

ANY_KEY: Final = "any"
Need = Scope | Literal["any"]

OPEN = frozenset({"/healthz"})  # liveness: the system that restarts the container has no key
READINESS: Final = "/readyz"  # probes and balancers have no key; with one the answer says why
_PAGE = re.compile(r"/playground(/|/assets/[A-Za-z0-9._-]+)?")
_PART = re.compile(r"\{\w+\}")
_READ_ONLY = ("GET", "HEAD")

_OF_RUNS = (
    ("GET", ""),
    ("POST", ""),
    ("GET", "/{id}"),
    ("PUT", "/{id}"),
    ("DELETE", "/{id}"),
    ("POST", "/{id}/cancel"),
    ("GET", "/{id}/events"),
    ("GET", "/{id}/stream"),
    ("GET", "/{id}/deliveries"),
    ("POST", "/{id}/deliveries/{id}/redeliver"),
)
NEEDS: dict[str, Need] = {
    "GET /": ANY_KEY,
    "GET /health-check": ANY_KEY,
    "GET /readyz": ANY_KEY,
    "GET /openapi.json": ANY_KEY,
    "GET /docs": ANY_KEY,
    "GET /docs/{id}": ANY_KEY,
    "GET /selftest": ANY_KEY,
    "GET /metrics": ANY_KEY,
    "GET /playground/examples.json": ANY_KEY,
    "GET /playground/server.json": ANY_KEY,
    "DELETE /owners/{id}/data": ANY_KEY,  # the caller's own data, of the kinds that the key opens
    "GET /adapters": "predict",
    "POST /adapters": "predict",
    "GET /adapters/{id}": "predict",
    "PATCH /adapters/{id}": "predict",
    "DELETE /adapters/{id}": "predict",
    "GET /adapters/{id}/download": "predict",
    **{f"{method} /predictions{rest}": "predict" for method, rest in _OF_RUNS},
    **{f"{method} /trainings{rest}": "train" for method, rest in _OF_RUNS},
}

_own: dict[str, Need] = {}


def set_need(route: str, need: Need) -> None:
    """Set the scope for a route of your own; the default is `admin`.

    Args:
        route: method and path, such as `POST /v1/answers` or `GET /v1/answers/{id}`.
        need: the scope that a key needs for it.
    """
    _own[route] = need


def need_of(method: str, path: str) -> Need:
    """Return the scope that a key needs for this request."""
    method = "GET" if method == "HEAD" else method
    return _listed(method, path) or _find(_own, method, path) or "admin"


def _find(needs: Mapping[str, Need], method: str, path: str) -> Need | None:
    """Return the scope of a route; a part in braces stands for any one part."""
    asked = f"{method} {path}"
    return next((need for route, need in needs.items() if _pattern(route).fullmatch(asked)), None)


@cache
def _pattern(route: str) -> re.Pattern[str]:
    return re.compile("[^/]+".join(map(re.escape, _PART.split(route))))


def is_own(method: str, path: str) -> bool:
    """Return whether a request is for a route of your own: one that the table lacks."""
    return _listed(method, path) is None


def _listed(method: str, path: str) -> Need | None:
    """Return the table's entry for a request."""
    parts = path.split("/")
    for place in (2, 4):
        if len(parts) > place and parts[place]:
            parts[place] = "{id}"
    listed = NEEDS.get(f"{method} {path}") or NEEDS.get(f"{method} {'/'.join(parts)}")
    return listed or _find(PLATFORM_NEEDS, method, path)


def is_liveness(connection: Connection) -> bool:
    """Return whether a path is a health check, which is open even when keys are set."""
    return connection["path"] in OPEN


def is_open(connection: Connection) -> bool:
    """Return whether a request needs no key: health checks, probes, the page, and signed URLs.

    The page holds no data, and the routes of signed URLs check the signature.
    """
    path = connection["path"]
    if path in OPEN:
        return True
    if connection["method"] not in _READ_ONLY:
        return False
    if path == READINESS or is_signed(path):
        return True
    return wants_page(connection) if path == "/" else _PAGE.fullmatch(path) is not None
