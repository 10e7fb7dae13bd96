"""Whose records a request is about: the owner of its key; nobody's where no keys are set.

What belongs to another owner is not there, in the same words as what nobody has. A key with the
scope `admin` sees all: it looks among its own first, and `?owner=NAME` says whose it means.
"""

import re
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Query
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request
from starlette.types import Scope

from cog_adapt.server.api.dependencies import PredictionIdDep, ServiceDep
from cog_adapt.server.api.responses import record_body
from cog_adapt.server.errors import IdInUse, NotFound
from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.service import PredictionService

_OWNER = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._@-]{0,63})?")


class Asker(NamedTuple):
    """Who asks.

    Attributes:
        owner: of the key; empty where no keys are set.
        sees_all: whether the key has the scope `admin`.
        wanted: whom such a key asks about; None: whoever it may be.
        scope: of the request; None where no keys are set.
    """

    owner: str = ""
    sees_all: bool = False
    wanted: str | None = None
    scope: Scope | None = None

    @property
    def listed(self) -> str | None:
        """Whose records a list shows; None: all."""
        return self.wanted if self.sees_all else self.owner

    @property
    def replayed(self) -> tuple[str, ...]:
        """Whose records answer a repeated PUT; those of before there were keys are the admin's."""
        return (self.owner, "") if self.sees_all else (self.owner,)

    def view(self, record: Record) -> dict[str, Any]:
        """Return a record as the API shows it; who sees all is told whose it is."""
        whose = {"owner": record.owner} if self.sees_all and record.owner else {}
        return record_body(record) | whose

    def note_unknown(self) -> None:
        """Log that a key asked for an id that its owner does not have; another owner may."""
        if self.scope is not None:
            note_refusal(self.scope, "no such id of this owner")


def key_of(request: Request) -> Key | None:
    """Return the API key of a request; None where no keys are set."""
    key: Key | None = request.scope.get("state", {}).get("key")
    return key


def asker_of(request: Request) -> Asker:
    """Return who asks.

    Raises:
        NotFound: an admin asks about an owner whose name no owner can have.
    """
    key = key_of(request)
    if key is None:
        return Asker()
    if not key.opens("admin"):
        return Asker(key.owner, scope=request.scope)
    wanted = request.query_params.get("owner")
    if wanted is not None and not _OWNER.fullmatch(wanted):
        raise NotFound(f"there is no owner {wanted[:80]!r}.")
    return Asker(key.owner, sees_all=True, wanted=wanted, scope=request.scope)


async def _asker(
    request: Request,
    owner: Annotated[
        str | SkipJsonSchema[None],
        Query(description="Whose, for a key with the scope `admin`; others see their own."),
    ] = None,
) -> Asker:
    return asker_of(request)


AskerDep = Annotated[Asker, Depends(_asker)]


class Look:
    """An id that somebody asks about.

    Args:
        service: knows what is in flight and what was.
        asker: who asks.
        prediction_id: as in the path.
    """

    def __init__(self, service: PredictionService, asker: Asker, prediction_id: str) -> None:
        self.service, self.asker, self.id = service, asker, prediction_id

    async def owner(self, kind: Kind) -> str:
        """Return to whose record the id leads; to the asker's own where there is no other.

        Raises:
            IdInUse: several owners have it, and an admin has not said who is meant.
        """
        if not self.asker.sees_all or self.asker.wanted is not None:
            return self._named_owner
        owners = self._owners_in_flight(kind)
        return self._choose(owners.union(await self.service.records.owners_of(self.id, kind)))

    def owner_in_flight(self) -> str:
        """Return the same of what is in flight, of either kind.

        Raises:
            IdInUse: several owners have it, and an admin has not said who is meant.
        """
        if not self.asker.sees_all or self.asker.wanted is not None:
            return self._named_owner
        return self._choose(self._owners_in_flight())

    @property
    def _named_owner(self) -> str:
        return self.asker.owner if self.asker.wanted is None else self.asker.wanted

    def _owners_in_flight(self, kind: Kind | None = None) -> set[str]:
        return {
            owner
            for dispatcher in self.service.dispatchers.values()
            for each, name, owner in dispatcher.predictions
            if name == self.id and kind in (None, each)
        }

    def _choose(self, owners: set[str]) -> str:
        if self.asker.owner in owners or not owners:
            return self.asker.owner
        if len(owners) > 1:
            raise IdInUse(
                f"{len(owners)} owners have the id {self.id[:80]!r}. Name one: ?owner=NAME."
            )
        return owners.pop()

    def unknown(self, kind: Kind) -> NotFound:
        """Return the error for an id that leads to nothing of the asker's, and note it."""
        self.asker.note_unknown()
        return NotFound(f"there is no {NOUNS[kind]} {self.id[:80]!r}.")


async def _look(service: ServiceDep, asker: AskerDep, prediction_id: PredictionIdDep) -> Look:
    return Look(service, asker, prediction_id)


LookDep = Annotated[Look, Depends(_look)]
