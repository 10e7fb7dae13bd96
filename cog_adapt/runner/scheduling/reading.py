"""Reads large sources of callers: one at a time, owners in turn, on one thread.

Each of several parsing threads would hold the interpreter for a switch interval before the model
thread has it back; so there is one. A full garbage collection holds the interpreter longer the more
objects there are, and rows are many: it waits until they are read. This module knows no formats.
"""

import asyncio
import contextvars
import gc
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from cog_adapt.runner.scheduling.giving_way import giving_way
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from cog_adapt.runner.scheduling.tickets import Ticket

T = TypeVar("T")


class Reading:
    """The thread that reads, and each owner's row of sources."""

    def __init__(self) -> None:
        self._scheduler = Scheduler("reading")

    def read(self, owner: str, read: Callable[[], T]) -> T:
        """Read a source in its owner's turn; returns and raises what `read` does."""
        return self._submit(owner, read).wait()

    async def read_async(self, owner: str, read: Callable[[], T], *, is_large: bool) -> T:
        """Read as `read` does, from an event loop; a source whose caller has left is skipped.

        A source that is not large is read at once, on any thread.
        """
        if not is_large:
            return await asyncio.to_thread(read)
        return await self._submit(owner, read).wait_async()

    def close(self) -> None:
        """Drop waiting sources and end the thread; their callers get `UnavailableError`."""
        self._scheduler.close()

    def _submit(self, owner: str, read: Callable[[], T]) -> Ticket[T]:
        called = contextvars.copy_context().run  # what a task prints belongs to its prediction
        return self._scheduler.submit_short(once(called, partial(_read, read)), owner)


def _read(read: Callable[[], T]) -> T:
    """Read while other threads run in between, without garbage collections."""
    collects = gc.isenabled()
    gc.disable()  # the values read have no cycles
    try:
        with giving_way():
            return read()
    finally:
        if collects:
            gc.enable()
