"""The ordered events of one prediction, for readers that follow it live or later.

A log keeps the latest events for a replay, within its budget; each follower also has a queue of its
own, so that a log that keeps no events can still be followed.
"""

import asyncio
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import msgspec

from cog_adapt.server.errors import TooManyReaders
from cog_adapt.server.shares.budget import Budget

MOST_FOLLOWERS = 1024
MOST_WAITING = 65_536
_OWN_BYTES = 200  # bytes of an event without its data
_LARGEST_SHARE = 8


class RunEvent(msgspec.Struct, frozen=True):
    """One event.

    Attributes:
        number: ascending without gaps; from 1, but higher where another server began the run.
        name: start, output, log, metric, queued or completed.
        data: JSON.
    """

    number: int
    name: str
    data: bytes


@dataclass(eq=False)
class _Follower:
    events: deque[RunEvent] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    missed: int = 0
    size: int = 0

    def add(self, event: RunEvent, most_bytes: float) -> None:
        """Queue an event, or count it as missed if too many bytes wait; one event always fits."""
        fits = not self.size or self.size + len(event.data) <= most_bytes
        if fits and len(self.events) < MOST_WAITING:
            self.events.append(event)
            self.size += len(event.data) + _OWN_BYTES
        else:
            self.missed += 1
        self.wake.set()


class MissedError(Exception):
    """Events were dropped before a reader saw them.

    Attributes:
        count: dropped events.
    """

    def __init__(self, count: int) -> None:
        super().__init__(f"{count} events are no longer kept")
        self.count = count


class EventLog:
    """The events of one prediction.

    Args:
        capacity: number of latest events kept for a replay.
        budget: bytes of all logs; None: unlimited.
        owner: of the prediction; empty if no keys are set.
        first: the number of the first event.

    Attributes:
        size: the approximate memory that the kept events take, in bytes.
        is_closed: whether the last event has come.
        was_followed: whether any reader has seen an event.
    """

    def __init__(
        self, capacity: int, budget: Budget | None = None, owner: str = "", *, first: int = 1
    ) -> None:
        self._capacity = capacity
        self._owner = owner
        self._budget = budget or Budget("events", "EVENT_BYTES", math.inf)
        self._most_bytes = self._budget.limit_of(owner) / _LARGEST_SHARE
        self._kept: deque[RunEvent] = deque()
        self._first, self._last = first, first - 1
        self.size = self._charged = 0
        self._followers: set[_Follower] = set()
        self.is_closed = self.was_followed = False

    @property
    def followers(self) -> int:
        """The number of present readers."""
        return len(self._followers)

    def missed(self, after: int) -> int:
        """Return the number of missing events after this number."""
        oldest = self._kept[0].number if self._kept else self._last + 1
        return max(0, oldest - max(after + 1, self._first))

    def append(self, name: str, data: bytes) -> None:
        """Add an event, for the replay and for each reader."""
        self._last += 1
        event = RunEvent(self._last, name, data)
        if self._capacity:
            self._keep(event)
        for follower in self._followers:
            follower.add(event, self._most_bytes)

    def _keep(self, event: RunEvent) -> None:
        self._kept.append(event)
        self._weigh(len(event.data) + _OWN_BYTES)
        while self._kept and (
            len(self._kept) > self._capacity
            or self.size > self._most_bytes
            or self._budget.is_over(self._owner)
        ):
            self._weigh(-len(self._kept.popleft().data) - _OWN_BYTES)

    def _weigh(self, size: int) -> None:
        self.size += size
        self._charged += size
        self._budget.add(self._owner, size)

    def release(self) -> None:
        """Take the events off the budget: present readers are the last ones."""
        self._budget.free(self._owner, self._charged)
        self._charged = 0

    def close(self) -> None:
        """Close the log after the last event."""
        self.is_closed = True
        for follower in self._followers:
            follower.wake.set()

    @property
    def next_number(self) -> int:
        """The number of the next event."""
        return self._last + 1

    def follow(self, after: int | None = 0) -> "EventReader":
        """Return a reader of the events after a number, as they come, until the log is closed.

        The reader misses no event after this call, however late it asks for the first portion.

        Args:
            after: number of the last event seen; 0: from the beginning; None: no replay. A number
                that no event has yet was seen in an earlier log of a run that runs again: from the
                beginning too.

        Raises:
            TooManyReaders: the limit of readers is reached.
        """
        if len(self._followers) >= MOST_FOLLOWERS:
            raise TooManyReaders(f"{MOST_FOLLOWERS} readers follow this prediction; try later.")
        follower = _Follower()
        self.was_followed = True
        if after is not None:
            after = after if after <= self._last else 0
            follower.events.extend(event for event in self._kept if event.number > after)
            follower.size = self.size
            follower.missed = self.missed(after)
        self._followers.add(follower)
        return EventReader(self, follower, lambda: self._followers.discard(follower))


class EventReader:
    """Iterates over the events of one prediction in portions; made by `EventLog.follow`."""

    def __init__(self, log: EventLog, follower: _Follower, leave: Callable[[], None]) -> None:
        self._log = log
        self._follower = follower
        self._leave = leave

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[RunEvent]:
        """Wait for events, and return them.

        Raises:
            MissedError: some events in between were dropped.
        """
        follower = self._follower
        while not (follower.missed or follower.events or self._log.is_closed):
            follower.wake.clear()
            await follower.wake.wait()
        if follower.missed:
            self._leave()
            raise MissedError(follower.missed)
        if not follower.events:
            self._leave()
            raise StopAsyncIteration
        portion = list(follower.events)
        follower.events.clear()
        follower.size = 0
        return portion

    async def aclose(self) -> None:
        """Stop following."""
        self._leave()
