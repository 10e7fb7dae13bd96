"""Which worker may learn from which examples: of equal adaptations of an owner one runs at a time.

Claims are held in memory, and beside it as rows if other hosts may serve the same database. So a
claim ends with its run, its worker, or its server.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final

import structlog

from cog_adapt.server.adapter_messages import LEASE_SECONDS, Claim, Claimed, lease_clock
from cog_adapt.server.errors import StorageError
from cog_adapt.server.records.adapters import Place
from cog_adapt.server.records.claims import ClaimRows
from cog_adapt.server.service.worker import Worker

LOOK_SECONDS: Final = 0.25  # between two looks at a claim of another server
RETRY_SECONDS: Final = 1.0
log = structlog.get_logger()


@dataclass
class _Line:
    """The claims to one adaptation of one owner; the first is held, or waits for other servers.

    Attributes:
        waiting: worker and number of each claim, in their order.
        is_ours: whether this server may run the adaptation.
    """

    waiting: list[tuple[Worker, int]] = field(default_factory=list)
    is_ours: bool = False


class AdaptationClaims:
    """Grants the claims of all workers of this server.

    Args:
        rows: the claims of all servers; None: there are no others.
    """

    def __init__(self, rows: ClaimRows | None) -> None:
        self._rows = rows
        self._lines: dict[Place, _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, worker: Worker, claim: Claim) -> None:
        """Grant a claim, or let it wait in line."""
        place = (claim.owner, claim.key)
        is_first = place not in self._lines
        line = self._lines.setdefault(place, _Line(is_ours=self._rows is None))
        line.waiting.append((worker, claim.number))
        if is_first and not line.is_ours and self._rows is not None:
            self._spawn(self._take(self._rows, place, line))
        else:
            is_held = line.is_ours and line.waiting[0] == (worker, claim.number)
            worker.send(Claimed(claim.number, is_held))

    def release(self, worker: Worker, number: int) -> None:
        """End a claim of a worker."""
        self._end(lambda each: each == (worker, number))

    def on_exit(self, worker: Worker) -> None:
        """End all claims of a worker whose process has ended."""
        self._end(lambda each: each[0] is worker)

    def take_again(self) -> None:
        """Take all claims anew: they ended with this server's lease, so others may have them."""
        if self._rows is None:
            return
        for place, line in self._lines.items():
            if line.is_ours:
                line.is_ours = False
                self._spawn(self._take(self._rows, place, line))

    def close(self) -> None:
        """Stop waiting for other servers; what is still claimed ends with this server's lease."""
        for task in self._tasks:
            task.cancel()

    def _end(self, is_over: Callable[[tuple[Worker, int]], bool]) -> None:
        for place, line in [*self._lines.items()]:
            if any(map(is_over, line.waiting)):
                first = line.waiting[0]
                line.waiting = [each for each in line.waiting if not is_over(each)]
                self._go_on(place, line, has_moved=first not in line.waiting)

    def _go_on(self, place: Place, line: _Line, *, has_moved: bool) -> None:
        """Grant the next claim, or end the line."""
        if not line.waiting:
            del self._lines[place]
            if line.is_ours and self._rows is not None:
                self._spawn(self._release(self._rows, place))
        elif has_moved and line.is_ours:
            worker, number = line.waiting[0]
            worker.send(Claimed(number, is_held=True))

    async def _take(self, rows: ClaimRows, place: Place, line: _Line) -> None:
        """Wait until no other server has the claim.

        While the database cannot be asked, wait for it, but no longer than this server's lease
        lasts: to learn twice is better than not at all.
        """
        latest = lease_clock() + LEASE_SECONDS
        while line.waiting and not line.is_ours:
            is_taken = await _take_once(rows, place)
            if is_taken is None and lease_clock() < latest:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            line.is_ours = is_taken is not False
            for worker, number in line.waiting[1:] if line.is_ours else line.waiting:
                worker.send(Claimed(number, is_held=False))
            if not line.is_ours:
                latest = lease_clock() + LEASE_SECONDS
                await asyncio.sleep(LOOK_SECONDS)
        if line.waiting:
            worker, number = line.waiting[0]
            worker.send(Claimed(number, is_held=True))
        elif line.is_ours:  # the last one left while the row was written
            await self._release(rows, place)

    async def _release(self, rows: ClaimRows, place: Place) -> None:
        while place not in self._lines:  # else the next claim here uses the row
            try:
                await rows.release(*place)
            except StorageError as error:
                log.warning("a claim cannot be released", error=str(error))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _take_once(rows: ClaimRows, place: Place) -> bool | None:
    """Return whether the claim is taken; None if the database cannot be asked."""
    try:
        return await rows.take(*place)
    except StorageError as error:
        log.warning("a claim is not recorded", error=str(error))
        return None
