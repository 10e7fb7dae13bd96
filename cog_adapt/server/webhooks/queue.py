"""Queues the webhooks of one prediction, and limits the rate of its logs."""

from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.record import Delivery

# A fast receiver gets every webhook. For a slower one the newest is enough, because each webhook
# contains all output and logs so far.
_MOST_WAITING = 256
_MOST_BYTES = 8 * 2**20


class Announcement(NamedTuple):
    """A webhook that is sent once, without a retry.

    Attributes:
        event: start, output or logs.
        headers: additional request headers.
        owner: the owner of the record that the webhook is about; empty if no keys are set.
    """

    kind: Kind
    record_id: str
    event: str
    url: str
    body: bytes
    headers: Mapping[str, str] = {}
    owner: str = ""

    @property
    def key_of_record(self) -> tuple[str, str, str]:
        """The key of the record that it is about."""
        return self.kind, self.record_id, self.owner


class WebhookQueue:
    """The unsent announcements of one prediction, and its delivery.

    Args:
        free: a function that is called with the number of bytes of dropped announcements.
    """

    def __init__(self, free: Callable[[int], None] = lambda size: None) -> None:
        self._free = free
        self._waiting: deque[Announcement] = deque()
        self._bytes = 0
        self._end = float("inf")
        self._deliveries: deque[Delivery] = deque()

    def put(self, announcement: Announcement) -> None:
        """Queue an announcement; drop older ones if too many wait, but never `start`."""
        self._waiting.append(announcement)
        self._bytes += len(announcement.body)
        while len(self._waiting) > _MOST_WAITING or self._bytes > _MOST_BYTES:
            oldest = next((each for each in self._waiting if each.event != "start"), announcement)
            if oldest is announcement:
                return
            self._waiting.remove(oldest)
            self._bytes -= len(oldest.body)
            self._free(len(oldest.body))

    def finish(self, delivery: Delivery, end: float) -> None:
        """Queue the delivery behind all announcements.

        Args:
            delivery: the delivery of `completed`.
            end: the end of its wait for announcements, in seconds of a monotonic clock.
        """
        self._deliveries.append(delivery)
        self._end = end

    def take(self, now: float) -> Announcement | None:
        """Return the next announcement, or None if there is none or its time is over."""
        if not self._waiting or now >= self._end:
            self._drop_announcements()
            return None
        announcement = self._waiting.popleft()
        self._bytes -= len(announcement.body)
        return announcement

    def clear(self) -> list[Delivery]:
        """Drop everything. Return the deliveries that are not sent now."""
        dropped = list(self._deliveries)
        self._deliveries.clear()
        self._drop_announcements()
        self._free(sum(len(delivery.body) for delivery in dropped))
        return dropped

    def take_last(self) -> Delivery | None:
        """Return the next delivery; a second one belongs to a later run of the same id."""
        delivery = self._deliveries.popleft() if self._deliveries else None
        if not self._deliveries:
            self._end = float("inf")
        return delivery

    def _drop_announcements(self) -> None:
        self._waiting.clear()
        self._free(self._bytes)
        self._bytes = 0


class LogThrottle:
    """Limits the rate of a prediction's `logs` webhooks.

    `start` and `output` are not held back, but count, because they carry the logs too.

    Args:
        interval: the least number of seconds between two webhooks.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._last: float | None = None

    def is_due(self, now: float) -> bool:
        """Return whether `logs` may be sent at this time, in seconds of a monotonic clock."""
        return self._last is None or now - self._last >= self._interval

    def note(self, now: float) -> None:
        """Record that a webhook of any event is sent at this time."""
        self._last = now
