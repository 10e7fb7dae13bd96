"""Windows of calls that count those of the other servers of the database, a second late.

To count each call in the database would put a commit before each answer. So every server admits by
its own windows, and each second writes what it has admitted and adds what the others have. Within
that second each server may admit what is left of a rate.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import structlog

from cog_adapt.server.errors import StorageError
from cog_adapt.server.middleware.rate_limit import Rate, Windows
from cog_adapt.server.records.rates import RateCounts

_SECONDS = 1.0
log = structlog.get_logger()


class SharedWindows(Windows):
    """The times of each caller's last calls at all servers.

    Args:
        rates: the limits.
        counts: of all servers.
    """

    def __init__(self, rates: Sequence[Rate], counts: RateCounts) -> None:
        super().__init__(rates)
        self._counts = counts
        self._fresh: Counter[str] = Counter()

    def enter(self, caller: str, now: float) -> float:
        """Count a call and return 0, or return the seconds until it would be admitted."""
        wait = super().enter(caller, now)
        if not wait:
            self._fresh[caller] += 1
        return wait

    @asynccontextmanager
    async def exchanging(self) -> AsyncIterator[None]:
        """Exchange with the other servers as long as the block runs, first before it."""
        await self.exchange()
        task = asyncio.create_task(self._exchange_always())
        try:
            yield
        finally:
            task.cancel()

    async def exchange(self) -> None:
        """Write what was admitted here, and add what was admitted elsewhere."""
        fresh, self._fresh = self._fresh, Counter()
        try:
            others = await self._counts.exchange(fresh, self.longest)
        except StorageError as error:
            self._fresh += fresh
            log.warning("rates are counted by this server alone", error=str(error))
            return
        now = time.monotonic()
        for each in others:
            self.add(each.caller, each.calls, now - each.age)

    async def _exchange_always(self) -> None:
        while True:
            await asyncio.sleep(_SECONDS)
            await self.exchange()
