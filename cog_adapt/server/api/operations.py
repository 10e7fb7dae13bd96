"""Names, groups and keys of the operations in the OpenAPI document, by one rule for all routes.

The id of an operation is the fixed parts of its path and its route's name, `predictions.list`; a
name that repeats the last part is left out, `predictions.cancel`. Its tag is the route's, or the
first part of the path.
"""

import re
from collections.abc import Mapping
from typing import Any, Protocol

from cog_adapt.server.middleware.access import OPEN, READINESS
from cog_adapt.server.schema.types import Schema

SECURITY_SCHEMES: Schema = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An API key of the operator."},
    "key": {"type": "apiKey", "in": "header", "name": "X-Api-Key", "description": "The same key."},
}
# relative to the document's own address, so that a prefix of a proxy works
SERVERS = [{"url": ".", "description": "The server that has this document"}]
_KEYS: list[dict[str, list[str]]] = [{name: []} for name in SECURITY_SCHEMES]
_NO_KEY: dict[str, list[str]] = {}
_PARAMETER = re.compile(r"\{.*\}")
_NOT_IN_A_NAME = re.compile(r"\W+")
_FORMAT = re.compile(r"\.json$")


class RouteLike(Protocol):
    """The attributes of a route that its id is made of."""

    name: str
    path_format: str
    tags: Any


def operation_id(route: RouteLike) -> str:
    """Return the id of a route's operation, for FastAPI's `generate_unique_id_function`."""
    parts = _fixed_parts(route.path_format)
    if parts[-1:] != [route.name]:
        parts.append(route.name)
    if len(parts) == 1:
        parts.insert(0, str(route.tags[0]) if route.tags else parts[0])
    return ".".join(parts)


def tagged_and_secured(paths: Mapping[str, Schema], *, needs_key: bool) -> dict[str, Any]:
    """Return the paths of a document with a tag and the accepted keys for each operation.

    Without keys of the operator a key is allowed: a generated client serves both.
    """
    maybe = [_NO_KEY, *_KEYS]
    keys = _KEYS if needs_key else maybe
    return {
        path: {
            method: {"tags": [*_fixed_parts(path)[:1]] or ["server"]}
            | operation
            | ({} if path in OPEN else {"security": maybe if path == READINESS else keys})
            for method, operation in item.items()
        }
        for path, item in paths.items()
    }


def _fixed_parts(path: str) -> list[str]:
    """Return the parts of a path that are no parameters, as words."""
    parts = [_FORMAT.sub("", part) for part in path.split("/")]
    return [_NOT_IN_A_NAME.sub("_", part) for part in parts if part and not _PARAMETER.search(part)]
