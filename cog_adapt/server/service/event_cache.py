"""Keeps the events of predictions that ended lately, for readers who reconnect after the end."""

from collections import OrderedDict

import msgspec

from cog_adapt.server.service.events import EventLog
from cog_adapt.server.service.prediction import Prediction

_OWN_BYTES = 1024
_LARGEST_SHARE = 8


class CachedEvents(msgspec.Struct, frozen=True):
    """The events of an ended prediction, one by one, as its record no longer has them.

    Attributes:
        events: all but the last.
        data: the last event's data.
    """

    events: EventLog
    data: bytes

    def completed(self) -> bytes:
        """Return the data of the last event."""
        return self.data

    @property
    def size(self) -> int:
        """The approximate memory that the events take, in bytes."""
        return self.events.size + len(self.data) + _OWN_BYTES


class EventCache:
    """The events of the predictions that ended last.

    Args:
        most_bytes: of all events; the oldest prediction goes first, a very large one is not kept.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._ended: OrderedDict[tuple[str, str], CachedEvents] = OrderedDict()

    def add(self, prediction: Prediction) -> None:
        """Keep one; nobody can have followed one whose id was told with its end."""
        request, events = prediction.request, prediction.events
        self.forget(request.id, request.owner)
        if (
            not (request.durable or request.has_client_id or events.was_followed)
            or not self._most_bytes
        ):
            return
        ended = CachedEvents(events, prediction.completed())
        if ended.size * _LARGEST_SHARE > self._most_bytes:
            return
        self._ended[request.id, request.owner] = ended
        self._bytes += ended.size
        while self._bytes > self._most_bytes:
            self.forget(*next(iter(self._ended)))

    def get(self, name: str, owner: str = "") -> CachedEvents | None:
        """Return the events of this owner's id, or None."""
        return self._ended.get((name, owner))

    def drop(self, owner: str, name: str | None = None) -> None:
        """Drop the events of one of an owner's ids, or of all."""
        for each, whose in [*self._ended]:
            if whose == owner and name in (None, each):
                self.forget(each, whose)

    def forget(self, name: str, owner: str = "") -> None:
        """Drop the events of this owner's id."""
        ended = self._ended.pop((name, owner), None)
        self._bytes -= ended.size if ended else 0
