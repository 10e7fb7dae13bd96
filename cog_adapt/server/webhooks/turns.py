"""Limits concurrent webhooks: to one host, and in all, shared by owners.

A receiver that never answers holds the turns of its own host only, and an owner with slow receivers
never holds all turns of a host that other owners' webhooks use. After an attempt that fails to
connect, its turn rests: a host that refuses connections would otherwise be tried as often as the
processor allows, at the cost of all callers.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from urllib.parse import urlsplit

_REST_SECONDS = 1.0


class Turns:
    """Turns to send, by owner, in the order of the requests.

    Args:
        most: the number of turns at once.
        most_of_host: the number of turns at once for one host.
    """

    def __init__(self, most: int = 256, most_of_host: int = 32) -> None:
        self._all = Share(most)
        self._most_of_host = most_of_host
        self._hosts: dict[str, Share] = {}

    @contextlib.asynccontextmanager
    async def take(self, owner: str, url: str) -> AsyncIterator["Turn"]:
        """Wait for a turn, and hold it; a waiting sender leaves turns of the host to others."""
        name, turn = _host_of(url), Turn()
        host = self._hosts.setdefault(name, Share(self._most_of_host))
        async with contextlib.AsyncExitStack() as held:
            held.callback(self._forget_unused, name)
            await host.take(owner)
            held.callback(turn.end, partial(self._give_back, name, owner))
            await self._all.take(owner)
            held.callback(turn.end, partial(self._all.give_back, owner))
            yield turn

    def _give_back(self, host: str, owner: str) -> None:
        self._hosts[host].give_back(owner)
        self._forget_unused(host)

    def _forget_unused(self, host: str) -> None:
        if host in self._hosts and self._hosts[host].is_unused:
            del self._hosts[host]


class Turn:
    """A turn: the right to send one webhook now.

    Attributes:
        rests: whether the turn stays unused for a second after its end.
    """

    def __init__(self) -> None:
        self.rests = False

    def end(self, give_back: Callable[[], None]) -> None:
        """Give the turn back, now or after its rest."""
        if self.rests:
            asyncio.get_running_loop().call_later(_REST_SECONDS, give_back)
        else:
            give_back()


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
        """Return a turn, and pass it to a waiting sender."""
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
        """Drop a sender that no longer waits, unless it was dropped before."""
        queue = self._waiting.get(owner, deque())
        with contextlib.suppress(ValueError):
            queue.remove(turn)
        if not queue:
            self._waiting.pop(owner, None)

    def _hand_out(self) -> None:
        """Give turns to waiting senders; the owner with the fewest turns comes first."""
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
    except ValueError:  # brackets without an address
        return url
