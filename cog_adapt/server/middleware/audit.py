"""One line of the log for each refused access: caller, route and reason; never a secret."""

import structlog
from starlette.types import Scope

from cog_adapt.server.middleware.rate_limit import client_of

_MOST_CHARACTERS = 200
log = structlog.get_logger()


def note_refusal(scope: Scope, why: str) -> None:
    """Log a refused request.

    Args:
        scope: of the request; its query and headers are left out, for they may hold secrets.
        why: in a few fixed words.
    """
    key = scope.get("state", {}).get("key")
    log.warning(
        "access refused",
        key=key.name if key is not None else None,
        owner=key.owner if key is not None else None,
        client=client_of(scope),
        method=scope["method"],
        path=scope["path"][:_MOST_CHARACTERS],
        why=why,
    )
