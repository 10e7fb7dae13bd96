"""Caches the events of recently ended predictions, for readers that reconnect after the end."""

import math
from datetime import datetime

import msgspec

from cog_adapt.owner_bytes import OwnerBytes
from cog_adapt.server.service.events import EventLog
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.shares.budget import Budget

_OWN_BYTES = 1024
_LARGEST_SHARE = 8


class CachedEvents(msgspec.Struct, frozen=True):
    """The events of an ended prediction one by one, which its record does not keep.

    Attributes:
        events: all but the last.
        data: the last event's data.
        owner: of the prediction.
        created_at: of the prediction: another server may forget it, and run a later one of its id.
    """

    events: EventLog
    data: bytes
    owner: str = ""
    created_at: datetime | None = None

    @property
    def has_moved(self) -> bool:
        """No: it has ended here."""
        return False

    def completed(self) -> bytes:
        """Return the data of the last event."""
        return self.data

    async def settle(self) -> None:
        """Return at once: its end is written."""

    @property
    def size(self) -> int:
        """The approximate memory that the events take, in bytes."""
        return self.events.size + self.own_size

    @property
    def own_size(self) -> int:
        """The approximate memory in bytes without the events, which `events` counts."""
        return len(self.data) + _OWN_BYTES


class EventCache:
    """The events of the predictions that ended last.

    Args:
        most_bytes: the limit of all cached events together; the oldest prediction is evicted first,
            and a prediction with very many bytes is left out.
        budget: the budget of all events; if the budget or an owner's share is spent, cached events
            are evicted first.
    """

    def __init__(self, most_bytes: int, budget: Budget | None = None) -> None:
        self._budget = budget or Budget("events", "EVENT_BYTES", math.inf)
        self._budget.reclaimers.append(self._forget_oldest)
        self._by_owner: OwnerBytes[str] = OwnerBytes(most_bytes, most_bytes)
        self._ended: dict[tuple[str, str], CachedEvents] = {}

    def add(self, prediction: Prediction) -> None:
        """Cache an ended prediction if a client can follow it.

        A client that learns a prediction's id only with the answer cannot follow the prediction.
        """
        request, events = prediction.request, prediction.events
        self.forget(request.id, request.owner)
        if (
            not (request.durable or request.has_client_id or events.was_followed)
            or not self._by_owner.most
        ):
            events.release()
            return
        ended = CachedEvents(events, prediction.completed(), request.owner, prediction.created_at)
        if ended.size * _LARGEST_SHARE > self._by_owner.most:
            events.release()
            return
        key = (request.owner, request.id)
        self._ended[key] = ended
        self._by_owner.add(key, ended.size)
        self._budget.add(ended.owner, ended.own_size)
        for gone in self._by_owner.drop_excess(ended.owner):
            self._release(gone)
        while self._budget.is_over(ended.owner) and self._forget_oldest_of(ended.owner):
            pass

    def get(self, name: str, owner: str = "") -> CachedEvents | None:
        """Return the events of this owner's id, or None."""
        return self._ended.get((owner, name))

    def drop(self, owner: str, name: str | None = None) -> None:
        """Drop the events of one of an owner's ids, or of all."""
        names = [key[1] for key in self._by_owner.keys_of(owner)] if name is None else [name]
        for each in names:
            self.forget(each, owner)

    def forget(self, name: str, owner: str = "") -> None:
        """Drop the events of this owner's id."""
        self._by_owner.discard((owner, name))
        self._release((owner, name))

    def _release(self, key: tuple[str, str]) -> None:
        ended = self._ended.pop(key, None)
        if ended is not None:
            self._budget.free(ended.owner, ended.own_size)
            ended.events.release()

    def _forget_oldest(self) -> bool:
        oldest = next(iter(self._ended), None)
        if oldest is not None:
            self.forget(oldest[1], oldest[0])
        return bool(self._ended)

    def _forget_oldest_of(self, owner: str) -> bool:
        own = self._by_owner.keys_of(owner)
        if own:
            self.forget(own[0][1], owner)
        return bool(own)
