"""The routes of Replicate's API: the scope that each needs, and those that a signature opens."""

import re
from typing import Final, Literal

from cog_adapt.server.middleware.keys import Scope

_OF_RUNS = (("GET", ""), ("GET", "/{id}"), ("POST", "/{id}/cancel"))
_MODEL = "/v1/models/{owner}/{name}"

PLATFORM_NEEDS: dict[str, Scope | Literal["any"]] = {
    **{f"{method} /v1/predictions{rest}": "predict" for method, rest in _OF_RUNS},
    **{f"{method} /v1/trainings{rest}": "train" for method, rest in _OF_RUNS},
    "POST /v1/predictions": "predict",
    f"POST {_MODEL}/predictions": "predict",
    "POST /v1/deployments/{owner}/{name}/predictions": "predict",
    f"POST {_MODEL}/versions/{{version}}/trainings": "train",
    "GET /v1/predictions/{id}/stream": "predict",
    "POST /v1/files": "any",
    "GET /v1/files": "any",
    "GET /v1/files/{id}": "any",
    "DELETE /v1/files/{id}": "any",
    "GET /v1/files/{id}/download": "any",
    f"GET {_MODEL}": "any",
    f"GET {_MODEL}/versions": "any",
    f"GET {_MODEL}/versions/{{version}}": "any",
    "GET /v1/deployments/{owner}/{name}": "any",
    "GET /v1/account": "any",
    "GET /v1/hardware": "any",
    "GET /v1/webhooks/default/secret": "admin",
}
FILE_UPLOAD: Final = ("POST", "/v1/files")

_SIGNED = re.compile(r"/v1/(?:predictions/[^/]+/stream|files/[^/]+/download)")
_OURS = re.compile(
    r"/v1/(?:predictions|trainings|files|deployments|account|hardware|webhooks|collections)(?:/.*)?"
    r"|/v1/models/[^/]+/.+"
)


def is_signed(path: str) -> bool:
    """Return whether the route of a path checks a signature in the URL, so that it needs no key."""
    return _SIGNED.fullmatch(path) is not None


def is_platform(path: str) -> bool:
    """Return whether a path is of Replicate's API, whose errors have a form of their own."""
    return _OURS.fullmatch(path) is not None
