"""Finds the owner of the records that a request is about: the key's owner, "" without keys.

Another owner's records are reported as unknown, in the same words as ids that do not exist. A key
with the scope `admin` sees all: its own are looked up first, and `?owner=NAME` selects an owner.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Query
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.api.dependencies import PredictionIdDep, RequestCaller, ServiceDep, caller_of
from cog_adapt.server.api.passing import RunsElsewhere
from cog_adapt.server.errors import IdInUse, NotFound
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.mapping import to_record
from cog_adapt.server.service.service import PredictionService


async def _caller(
    request: Request,
    owner: Annotated[
        str | SkipJsonSchema[None],
        Query(description="Whose, for a key with the scope `admin`; others see their own."),
    ] = None,
) -> RequestCaller:
    return caller_of(request)


CallerDep = Annotated[RequestCaller, Depends(_caller)]


Shown = Callable[[Record], Response]


class RecordLookup:
    """An id that somebody asks about.

    Args:
        service: knows what is in flight and what was.
        caller: who asks.
        prediction_id: as in the path.
    """

    def __init__(
        self, service: PredictionService, caller: RequestCaller, prediction_id: str
    ) -> None:
        self.service = service
        self.caller = caller
        self.id = prediction_id

    async def owner(self, kind: Kind) -> str:
        """Return to whose record the id leads; to the caller's own where there is no other.

        Raises:
            IdInUse: several owners have it, and an admin has not said who is meant.
        """
        if not self.caller.sees_all or self.caller.wanted is not None:
            return self._named_owner
        owners = self._owners_in_flight(kind)
        return self._choose(owners.union(await self.service.records.owners_of(self.id, kind)))

    async def record(self, kind: Kind) -> Record:
        """Return the record of the run that the id leads to, in flight or not.

        Raises:
            NotFound: the caller has none.
            IdInUse: as `owner`.
        """
        owner = await self.owner(kind)
        prediction = await self.service.find_here(self.id, kind, owner)
        if prediction is not None:
            return to_record(prediction)
        record = await self.service.records.get(self.id, kind, owner)
        if record is None:
            raise self.unknown(kind)
        return record

    async def here(self, kind: Kind, instead: Shown | None = None) -> Record:
        """Return the same record, unless another server runs it.

        Args:
            kind: prediction or training.
            instead: makes the answer for the case that the other server cannot be asked.

        Raises:
            NotFound: the caller has none.
            IdInUse: as `owner`.
            RunsElsewhere: another server runs it.
        """
        record = await self.record(kind)
        if self.is_elsewhere(record):
            raise RunsElsewhere(record, None if instead is None else instead(record))
        return record

    def is_elsewhere(self, record: Record) -> bool:
        """Return whether another server works on a record."""
        return self.service.records.peers.is_elsewhere(record)

    async def find_unfinished(self, kind: Kind) -> Record | None:
        """Return the record of a run that has not ended, or None."""
        record = await self.service.records.get(self.id, kind, await self.owner(kind))
        return None if record is None or record.is_finished else record

    def owner_in_flight(self) -> str:
        """Return the owner of the run in flight with this id, of either kind.

        Raises:
            IdInUse: several owners have it, and the admin has not named one.
        """
        if not self.caller.sees_all or self.caller.wanted is not None:
            return self._named_owner
        return self._choose(self._owners_in_flight())

    @property
    def _named_owner(self) -> str:
        return self.caller.owner if self.caller.wanted is None else self.caller.wanted

    def _owners_in_flight(self, kind: Kind | None = None) -> set[str]:
        return {
            owner
            for dispatcher in self.service.dispatchers.values()
            for each, name, owner in dispatcher.predictions
            if name == self.id and kind in (None, each)
        }

    def _choose(self, owners: set[str]) -> str:
        if self.caller.owner in owners or not owners:
            return self.caller.owner
        if len(owners) > 1:
            raise IdInUse(
                f"{len(owners)} owners have the id {self.id[:80]!r}. Name one: ?owner=NAME."
            )
        return owners.pop()

    def unknown(self, kind: Kind) -> NotFound:
        """Return the error for an id that leads to nothing of the caller's, and note it."""
        self.caller.note_unknown()
        return NotFound(f"there is no {NOUNS[kind]} {self.id[:80]!r}.")


async def _look(
    service: ServiceDep, caller: CallerDep, prediction_id: PredictionIdDep
) -> RecordLookup:
    return RecordLookup(service, caller, prediction_id)


LookDep = Annotated[RecordLookup, Depends(_look)]
