"""Calls after some time, by one timer for all: most have become needless by then."""

import asyncio
import time
from collections import deque
from collections.abc import Callable


class DeferredCalls:
    """What is to be done later; far cheaper than a timer each.

    Args:
        seconds: from `add` to the call, at least; at most half as long again.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()

    def add(self, call: Callable[[], None]) -> None:
        """Call this then, on the running event loop; it looks itself whether that is needed."""
        if not self._waiting:
            self._sleep(self._seconds)
        self._waiting.append((time.monotonic() + self._seconds, call))

    def _sleep(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._wake)

    def _wake(self) -> None:
        now, loop = time.monotonic(), asyncio.get_running_loop()
        while self._waiting and self._waiting[0][0] <= now:
            loop.call_soon(self._waiting.popleft()[1])  # a fault in one must not lose the others
        if self._waiting:
            self._sleep(max(self._waiting[0][0] - now, self._seconds / 2))
