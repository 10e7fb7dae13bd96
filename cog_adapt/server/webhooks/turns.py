"""How many webhooks are under way at once: to one host, and in all, shared by owners.

A receiver that never answers holds the turns of its own host, not those of others; and an owner
whose receivers are slow never holds all turns of a host that another owner's webhooks go to.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class Turns:
    """Turns to send: of an owner, in the order in which they are asked for.

    Args:
        most: at once.
        most_of_host: to one host.
    """

    def __init__(self, most: int = 256, most_of_host: int = 32) -> None:
        self._all, self._most_of_host = Share(most), most_of_host
        self._hosts: dict[str, Share] = {}

    @contextlib.asynccontextmanager
    async def take(self, owner: str, url: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it; who waits leaves turns of the host to others."""
        name = _host_of(url)
        host = self._hosts.setdefault(name, Share(self._most_of_host))
        try:
            async with host.take(owner), self._all.take(owner):
                yield
        finally:
            if host.is_unused:
                self._hosts.pop(name, None)


class Share:
    """Turns of which an owner may hold as many as it leaves free: half, where it is alone.

    So who comes new finds one, and a turn goes to the owner with the fewest. Who has no name, since
    no keys are set, may hold all.

    Args:
        most: at once.
    """

    def __init__(self, most: int) -> None:
        self._free = most
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def is_unused(self) -> bool:
        """Whether nobody holds a turn, or waits for one."""
        return not self._held and not self._waiting

    def may_have(self, owner: str) -> bool:
        """Return whether an owner may hold one more now."""
        return self._free > (self._held[owner] if owner else 0)

    def add(self, owner: str) -> None:
        """Count a turn that an owner holds from now on."""
        self._free -= 1
        self._held[owner] += 1

    def remove(self, owner: str) -> None:
        """Count one less, and let those who wait have it."""
        self._free += 1
        self._held[owner] -= 1
        if not self._held[owner]:
            del self._held[owner]
        self._hand_out()

    @contextlib.asynccontextmanager
    async def take(self, owner: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it."""
        if owner in self._waiting or not self.may_have(owner):
            await self._wait(owner)
        else:
            self.add(owner)
        try:
            yield
        finally:
            self.remove(owner)

    async def _wait(self, owner: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._forget(owner, turn)
            else:  # it was given at the same moment
                self.remove(owner)
            raise

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        """Drop one that waits no longer, unless that has been done."""
        queue = self._waiting.get(owner, deque())
        with contextlib.suppress(ValueError):
            queue.remove(turn)
        if not queue:
            self._waiting.pop(owner, None)

    def _hand_out(self) -> None:
        """Give turns to those who wait, to the owner with the fewest first."""
        while ready := [owner for owner in self._waiting if self.may_have(owner)]:
            owner = min(ready, key=self._held.__getitem__)
            turn = self._waiting[owner][0]
            self._forget(owner, turn)
            if not turn.done():
                self.add(owner)
                turn.set_result(None)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:  # brackets that hold no address
        return url
