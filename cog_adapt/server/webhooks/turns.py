"""Limits concurrent webhooks: to one host, and in all, shared by owners.

A receiver that never answers holds the turns of its own host only, and an owner with slow receivers
never holds all turns of a host that other owners' webhooks use. After an attempt that fails to
connect, its turn rests: a host that refuses connections would otherwise be tried as often as the
processor allows, at the cost of all callers.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from urllib.parse import urlsplit

from cog_adapt.server.shares.turns import Share

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


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:  # brackets without an address
        return url
