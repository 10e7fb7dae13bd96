"""How many webhooks are under way at once: to one host, of one owner, and in all.

A receiver that never answers holds the turns of its own host, not those of others.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit


class Turns:
    """Turns to send, in the order in which they are asked for.

    Args:
        most: at once.
        most_of_owner: of one owner; who has no name, since no keys are set, may take all.
        most_of_host: to one host.
    """

    def __init__(self, most: int = 256, most_of_owner: int = 128, most_of_host: int = 32) -> None:
        self._all = asyncio.Semaphore(most)
        self._owners, self._hosts = _Shares(most_of_owner), _Shares(most_of_host)

    @contextlib.asynccontextmanager
    async def take(self, owner: str, url: str) -> AsyncIterator[None]:
        """Wait for a turn, and hold it; who waits holds nothing that another owner waits for."""
        async with contextlib.AsyncExitStack() as held:
            if owner:
                await held.enter_async_context(self._owners.take(owner))
            await held.enter_async_context(self._hosts.take(_host_of(url)))
            await held.enter_async_context(self._all)
            yield


class _Shares:
    """A semaphore for each name that is in use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._users: dict[str, int] = {}
        self._semaphores: dict[str, asyncio.Semaphore] = {}

    @contextlib.asynccontextmanager
    async def take(self, name: str) -> AsyncIterator[None]:
        semaphore = self._semaphores.setdefault(name, asyncio.Semaphore(self._most))
        self._users[name] = self._users.get(name, 0) + 1
        try:
            async with semaphore:
                yield
        finally:
            self._users[name] -= 1
            if not self._users[name]:
                del self._users[name], self._semaphores[name]


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:  # brackets that hold no address
        return url
