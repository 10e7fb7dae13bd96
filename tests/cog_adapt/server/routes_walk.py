"""Every route of an application as (method, path), with something in place of its parameters."""

import re
from typing import Any

from starlette.routing import Mount, Route


def routes_of(app):
    """Of the routers inside it too."""
    found: set[Any] = set()
    _collect(app.routes, "", found)
    return sorted(found)


def _collect(routes, prefix, found):
    for route in routes:
        inner = getattr(route, "original_router", None)  # FastAPI's included router
        if inner is not None:
            _collect(inner.routes, prefix + route.include_context.prefix, found)
        elif isinstance(route, Mount):
            found.add(("GET", prefix + route.path + "/anything"))
            _collect(route.routes or [], prefix + route.path, found)
        elif isinstance(route, Route):
            path = re.sub(r"\{[^}]*\}", "some-id", prefix + route.path)
            found |= {(method, path) for method in route.methods or {"GET", "POST"}}
        else:
            raise AssertionError(f"no rule for {route!r}: the walk would not see it")
