"""Who asks, by the key of the request."""

from starlette.requests import Request

from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.records.adapter_pages import Asker


def asker_of(request: Request) -> Asker:
    """Return the owner of a request's key, and whether the key opens what others own."""
    key: Key | None = request.scope.get("state", {}).get("key")
    return Asker("") if key is None else Asker(key.owner, sees_all=key.opens("admin"))
