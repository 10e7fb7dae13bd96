"""What ended lately, for readers of events who come back after the end."""

import math
from collections import OrderedDict

import msgspec

from cog_adapt.server.budget import Budget
from cog_adapt.server.service.events import EventLog
from cog_adapt.server.service.prediction import Prediction

_OWN_BYTES = 1024
_LARGEST_SHARE = 8


class CachedEvents(msgspec.Struct, frozen=True):
    """The events of a prediction that has ended; a record no longer tells them one by one.

    Attributes:
        events: all but the last.
        data: of the last.
        owner: of the prediction.
    """

    events: EventLog
    data: bytes
    owner: str = ""

    def completed(self) -> bytes:
        """Return the data of the last event."""
        return self.data

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return self.events.size + self.own_size

    @property
    def own_size(self) -> int:
        """The same without the events, which are weighed where they are kept."""
        return len(self.data) + _OWN_BYTES


class EventCache:
    """The predictions that ended last.

    Args:
        most_bytes: of all of them; the oldest go first, and what is very large does not come in.
        budget: of all events; these are the first to go where it is spent.
    """

    def __init__(self, most_bytes: float, budget: Budget | None = None) -> None:
        self._most_bytes = most_bytes
        self._budget = budget or Budget("events", "EVENT_BYTES", math.inf)
        self._budget.reclaimers.append(self._forget_oldest)
        self._bytes = 0
        self._ended: OrderedDict[str, CachedEvents] = OrderedDict()

    def add(self, prediction: Prediction) -> None:
        """Keep one; nobody can have followed one whose id was told with its end."""
        self._forget(prediction.id)
        request, events = prediction.request, prediction.events
        if (
            not (request.durable or request.has_client_id or events.was_followed)
            or not self._most_bytes
        ):
            events.release()
            return
        ended = CachedEvents(events, prediction.completed(), request.owner)
        if ended.size * _LARGEST_SHARE > self._most_bytes:
            events.release()
            return
        self._ended[prediction.id] = ended
        self._bytes += ended.size
        self._budget.add(ended.owner, ended.own_size)
        while self._bytes > self._most_bytes or (self._ended and self._budget.is_over(ended.owner)):
            self._forget_oldest()

    def get(self, name: str) -> CachedEvents | None:
        """Return the events of this id, or None."""
        return self._ended.get(name)

    def _forget(self, name: str) -> None:
        ended = self._ended.pop(name, None)
        if ended is not None:
            self._bytes -= ended.size
            self._budget.free(ended.owner, ended.own_size)
            ended.events.release()

    def _forget_oldest(self) -> bool:
        if self._ended:
            self._forget(next(iter(self._ended)))
        return bool(self._ended)
