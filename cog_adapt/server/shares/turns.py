"""Turns that owners share: no owner's requests make another owner wait for all of them."""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator


class Share:
    """Turns of which an owner may hold as many as the owner leaves free: half, if it is alone.

    A new owner thus finds a free turn, and a turn goes to the owner with the fewest turns. If no
    keys are set, the one owner without a name may hold all turns.

    Args:
        most: the number of turns.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def is_unused(self) -> bool:
        """Whether no turn is held or waited for."""
        return not self._held and not self._waiting

    def may_have(self, owner: str) -> bool:
        """Return whether an owner may hold one more turn now."""
        return self._free > (self._held[owner] if owner else 0)

    def add(self, owner: str) -> None:
        """Count a turn that an owner now holds."""
        self._free -= 1
        self._held[owner] += 1

    def give_back(self, owner: str) -> None:
        """Return a turn, and pass it to the next that waits."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._hand_out()

    async def take(self, owner: str) -> None:
        """Wait for a turn, and hold it until it is given back."""
        if owner in self._waiting or not self.may_have(owner):
            await self._wait(owner)
        else:
            self.add(owner)

    @contextlib.asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it."""
        await self.take(owner)
        try:
            yield
        finally:
            self.give_back(owner)

    async def _wait(self, owner: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(owner, turn)
            else:  # the turn was given at the moment of the cancel
                self.give_back(owner)
            raise

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Drop a turn that is no longer waited for, unless it was dropped before."""
        queue = self._waiting.get(owner, deque())
        with contextlib.suppress(ValueError):
            queue.remove(turn)
        if not queue:
            self._waiting.pop(owner, None)

    def _hand_out(self) -> None:
        """Give turns to who waits: the owner with the fewest turns, else the one served before."""
        while ready := [owner for owner in self._waiting if self.may_have(owner)]:
            owner = min(ready, key=self._held.__getitem__)
            turn = self._waiting[owner][0]
            self._forget(owner, turn)
            if owner in self._waiting:  # behind the owners that have waited longer since their turn
                self._waiting[owner] = self._waiting.pop(owner)
            if not turn.done():
                self.add(owner)
                turn.set_result(None)
