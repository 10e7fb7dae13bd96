"""DELETE: forgets the runs of an owner, one by one or all at once."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.api.dependencies import ID_IN_PATH, ServerParts, caller_of, key_of, parts_of
from cog_adapt.server.api.ownership import LookDep
from cog_adapt.server.api.responses import error_response, json_response
from cog_adapt.server.api.shapes import refusals
from cog_adapt.server.errors import NotFound
from cog_adapt.server.files.upload_rows import uploads_of
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.forgetting import Forgetting, not_ended

_NOBODY = "-"


class Forgotten(BaseModel):
    """The numbers of forgotten records."""

    predictions: int = Field(ge=0)
    trainings: int = Field(ge=0)
    adapters: dict[str, str] = Field(
        description="What became of the adapters that it made: `removed`, or why it stays, by id."
    )


def forgetting_of(parts: ServerParts) -> Forgetting:
    """Return the service that forgets."""
    return Forgetting(parts.service, parts.webhooks, parts.adapters)


async def _forgetting(request: Request) -> Forgetting:
    return forgetting_of(parts_of(request))


ForgettingDep = Annotated[Forgetting, Depends(_forgetting)]
_DESCRIBED: dict[str, Any] = {
    "name": "delete",
    "methods": ["DELETE"],
    "response_model": Forgotten,
    "responses": refusals(400, 404, 409, 503),
}


class ForgettingRoutes:
    """The endpoint that forgets a run of a kind.

    Args:
        kind: prediction or training.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind

    def router(self) -> APIRouter:
        """Return the route."""
        router, noun = APIRouter(), NOUNS[self._kind]
        ids = [ID_IN_PATH[self._kind]]
        router.add_api_route(f"/{noun}s/{{{noun}_id}}", self.forget, dependencies=ids, **_DESCRIBED)
        return router

    async def forget(self, look: LookDep, forgetting: ForgettingDep) -> Response:
        """Forget an ended run, with its input, output, logs, events, webhooks and files."""
        owner = await look.owner(self._kind)
        try:
            await look.here(self._kind, instead=_not_ended)
            return json_response(await forgetting.forget(look.id, self._kind, owner))
        except NotFound:
            look.caller.note_unknown()
            raise


def _not_ended(record: Record) -> Response:
    return error_response(not_ended(record.kind, record.id), strict=False)


router = APIRouter()


@router.api_route("/owners/{owner}/data", **_DESCRIBED)
async def forget_all(request: Request, owner: str, forgetting: ForgettingDep) -> Response:
    """Forget an owner's uploads, and runs of the kinds that the key opens; `-`: of no owner."""
    key, caller = key_of(request), caller_of(request)
    owner = "" if owner == _NOBODY else owner
    if owner != caller.owner and not caller.sees_all:
        caller.note_unknown()
        raise NotFound(f"there is no owner {owner[:80]!r}.")
    kinds = [kind for kind in NOUNS if key is None or key.opens(kind)]
    forgotten = await forgetting.forget_all(owner, kinds)
    await asyncio.to_thread(uploads_of(parts_of(request).settings).remove_all, owner)
    return json_response(forgotten)
