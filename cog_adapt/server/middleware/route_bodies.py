"""The limits of bodies, by route.

The reader of your own route's body is unknown here. Usually its JSON is parsed and checked as a
whole on the event loop, where all requests wait for it: 2 ms for a text of 1 MiB, 0.1 s for 10,000
values.
"""

import math
import re

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.access import is_own
from cog_adapt.server.middleware.body_limit import BodyLimits
from cog_adapt.server.middleware.platform_routes import FILE_UPLOAD
from cog_adapt.server.settings import Settings
from cog_adapt.server.shares.budget import Budget

OWN_BYTES, OWN_VALUES = 2**20, 10_000
_UPLOADS = (("POST", "/adapters"), FILE_UPLOAD)

_ROUTE = re.compile(r"[A-Z]+ /[^\s{}]*")

_raised: dict[str, int] = {}


def set_body_limit(route: str, max_bytes: int) -> None:
    """Let a route of your own, for example `POST /v1/texts`, take larger bodies than 1 MiB.

    MAX_BODY_BYTES still limits these bodies. The server does not count the commas and brackets of
    such a body, so the route must read the body piece by piece, or parse it in another process.

    Raises:
        ConfigError: `route` must be a method and a whole path, and `max_bytes` a number of bytes.
    """
    if not _ROUTE.fullmatch(route):
        raise ConfigError(
            f"set_body_limit has the route {route[:100]!r}. Write a method and a path without "
            "parameters, such as 'POST /v1/texts'."
        )
    if not isinstance(max_bytes, int) or isinstance(max_bytes, bool) or max_bytes < 1:
        raise ConfigError(
            f"set_body_limit has {max_bytes!r} for {route!r}. Give a whole number of bytes, at "
            "least 1, such as 2**22; MAX_BODY_BYTES limits it further."
        )
    _raised[route] = max_bytes


class RouteBodies:
    """The limits of each route's bodies.

    Args:
        settings: of the operator.
        budget: of all bodies but uploaded files, which are written to the disk as they come.
    """

    def __init__(self, settings: Settings, budget: Budget) -> None:
        self._settings = settings
        self._budget = budget
        self._usual = self._limits(settings.max_body_bytes)
        self._own = self._limits(
            min(settings.max_body_bytes, OWN_BYTES),
            "Send less at once. The server's own code can let this route take more, up to "
            "MAX_BODY_BYTES, by `set_body_limit`.",
            most_values=OWN_VALUES,
        )
        self._files = BodyLimits(
            max_bytes=settings.max_file_bytes,
            pause_seconds=settings.body_seconds,
            budget=Budget("uploads", "MAX_FILE_BYTES", math.inf),
            remedy="MAX_FILE_BYTES is the limit of a file.",
        )

    def of(self, method: str, path: str) -> BodyLimits:
        """Return the limits of a request's body."""
        if (method, path) in _UPLOADS and not self._settings.strict_cog:
            return self._files
        if not is_own(method, path):
            return self._usual
        raised = _raised.get(f"{method} {path}")
        if raised is None:
            return self._own
        return self._limits(min(raised, self._settings.max_body_bytes))

    def _limits(
        self,
        max_bytes: int,
        remedy: str = "Send large files as URLs.",
        most_values: int | None = None,
    ) -> BodyLimits:
        return BodyLimits(
            max_bytes=max_bytes,
            pause_seconds=self._settings.body_seconds,
            budget=self._budget,
            in_text=self._settings.strict_cog,
            remedy=remedy,
            most_values=most_values,
        )
