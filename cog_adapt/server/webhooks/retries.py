"""Retries deliveries when they are due."""

import asyncio
import contextlib
import heapq
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from cog_adapt.server.records.record import Delivery
from cog_adapt.server.shares.turns import Share
from cog_adapt.server.webhooks.delivery import Deliverer

# fewer than all attempts allowed in flight, so that dead receivers never block first attempts
_AT_ONCE = 32
_LONGEST_SLEEP = 2.0  # longest delay before another server's abandoned deliveries are found
# a delivery without an attempt counts as abandoned after this time
_FIRST_ATTEMPT_WITHIN = timedelta(seconds=60)


class Retries:
    """Reads the database when the next attempt is due, and every two seconds."""

    def __init__(self, deliverer: Deliverer, delays: Sequence[float]) -> None:
        self._deliverer = deliverer
        self._delays = delays
        self._tasks: set[asyncio.Task[None]] = set()
        self._share = Share(_AT_ONCE)
        self._loop: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._next_look = 0.0
        self._moments: list[float] = []  # a heap of the times at which the database is read
        self._since = datetime.now(UTC)

    @property
    def running(self) -> set[asyncio.Task[None]]:
        """The attempts in progress."""
        return set(self._tasks)

    def start(self) -> None:
        """Start with the deliveries that are due now."""
        self._loop = asyncio.create_task(self._run(), name="webhook retries")

    async def stop(self) -> None:
        """Start no more attempts."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    def note(self, delivery: Delivery) -> None:
        """Schedule the next attempt at a delivery, if it needs one."""
        if delivery.next_attempt_at is not None:
            self._look_at(delivery.next_attempt_at.timestamp())

    async def _run(self) -> None:
        while True:
            self._next_look = self._plan_look(time.time())
            full: set[str] = set()
            while len(self._tasks) < _AT_ONCE and await self._begin_due(full):
                pass
            await self._sleep()

    async def _begin_due(self, full: set[str]) -> bool:
        """Begin due deliveries of owners outside `full`; return whether other owners may have more.

        Args:
            full: owners that have their share of the attempts; newly full owners are added.
        """
        known = len(full)
        for delivery in await self._deliverer.find_due(_AT_ONCE - len(self._tasks), full):
            if not self._share.may_have(delivery.owner):
                full.add(delivery.owner)
            elif not self._is_new(delivery) and self._deliverer.claim(delivery):
                self._begin(delivery)
        return len(full) > known

    def _begin(self, delivery: Delivery) -> None:
        self._share.add(delivery.owner)
        task = asyncio.create_task(self._retry(delivery))
        self._tasks.add(task)
        task.add_done_callback(partial(self._end, delivery.owner))

    def _plan_look(self, now: float) -> float:
        while self._moments and self._moments[0] <= now:
            heapq.heappop(self._moments)
        return min([now + _LONGEST_SLEEP, *self._moments[:1]])

    async def _retry(self, delivery: Delivery) -> None:
        self.note(await self._deliverer.deliver(delivery, self._delays))

    def _end(self, owner: str, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._share.give_back(owner)
        self._look_at(time.time())  # another attempt may start

    def _is_new(self, delivery: Delivery) -> bool:
        """Return whether the delivery waits for `complete` to make its first attempt."""
        made = delivery.created_at
        is_recent = made > self._since and abs(datetime.now(UTC) - made) < _FIRST_ATTEMPT_WITHIN
        return is_recent and not delivery.attempts

    def _look_at(self, moment: float) -> None:
        heapq.heappush(self._moments, moment)
        self._next_look = min(self._next_look, moment)
        self._wake.set()

    async def _sleep(self) -> None:
        # a later look was planned before the clock was set back
        while 0 < (left := self._next_look - time.time()) <= _LONGEST_SLEEP:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await self._wait_for_wake(left)

    async def _wait_for_wake(self, seconds: float) -> None:
        # not wait_for, which in Python 3.11 can swallow the cancel of stop()
        async with asyncio.timeout(seconds):
            await self._wake.wait()
