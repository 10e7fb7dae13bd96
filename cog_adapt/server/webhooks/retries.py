"""Further attempts at deliveries, when their time has come."""

import asyncio
import contextlib
import heapq
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cog_adapt.server.records.record import Delivery
from cog_adapt.server.webhooks.delivery import Deliverer

# fewer than all that go out at once: a dead receiver does not keep others from first attempts
_AT_ONCE = 32
_LONGEST_SLEEP = 2.0  # how late a delivery is found that another server left
# so long may pass between the final record and `complete`, before it counts as forgotten
_FIRST_ATTEMPT_WITHIN = timedelta(seconds=60)


class Retries:
    """Looks into the database when the next attempt is due, and every two seconds."""

    def __init__(self, deliverer: Deliverer, delays: Sequence[float]) -> None:
        self._deliverer, self._delays = deliverer, delays
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._next_look = 0.0
        self._moments: list[float] = []  # a heap: when to look at the latest
        self._since = datetime.now(UTC)

    @property
    def running(self) -> set[asyncio.Task[None]]:
        """The attempts that are being made."""
        return set(self._tasks)

    def start(self) -> None:
        """Begin with what is due now."""
        self._loop = asyncio.create_task(self._run(), name="webhook retries")

    async def stop(self) -> None:
        """Begin no more attempts."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
            self._loop = None

    def note(self, delivery: Delivery) -> None:
        """Be there in time for the next attempt at a delivery, if there is one."""
        if delivery.next_attempt_at is not None:
            self._look_at(delivery.next_attempt_at.timestamp())

    async def _run(self) -> None:
        while True:
            self._next_look = self._plan_look(time.time())
            room = _AT_ONCE - len(self._tasks)
            if room > 0:
                await self._begin_due(room)
            await self._sleep()

    async def _begin_due(self, limit: int) -> None:
        for delivery in await self._deliverer.find_due(limit):
            if not self._is_new(delivery) and self._deliverer.claim(delivery):
                task = asyncio.create_task(self._retry(delivery))
                self._tasks.add(task)
                task.add_done_callback(self._end)

    def _plan_look(self, now: float) -> float:
        while self._moments and self._moments[0] <= now:
            heapq.heappop(self._moments)
        return min([now + _LONGEST_SLEEP, *self._moments[:1]])

    async def _retry(self, delivery: Delivery) -> None:
        self.note(await self._deliverer.deliver(delivery, self._delays))

    def _end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._look_at(time.time())  # there is room for another one

    def _is_new(self, delivery: Delivery) -> bool:
        """Whether it waits for `complete`, and not for us."""
        made = delivery.created_at
        is_recent = made > self._since and datetime.now(UTC) - made < _FIRST_ATTEMPT_WITHIN
        return is_recent and not delivery.attempts

    def _look_at(self, moment: float) -> None:
        heapq.heappush(self._moments, moment)
        self._next_look = min(self._next_look, moment)
        self._wake.set()

    async def _sleep(self) -> None:
        while (left := self._next_look - time.time()) > 0:
            self._wake.clear()
            with contextlib.suppress(TimeoutError):
                await self._wait_for_wake(left)

    async def _wait_for_wake(self, seconds: float) -> None:
        # not wait_for, which in Python 3.11 can swallow the cancel of stop()
        async with asyncio.timeout(seconds):
            await self._wake.wait()
