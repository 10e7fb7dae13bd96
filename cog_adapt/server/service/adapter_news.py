"""Brings the changes that other servers make to adapters to the workers of this server."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from cog_adapt.server.adapter_messages import LEASE_SECONDS, lease_clock
from cog_adapt.server.errors import AdapterTimeout, StorageError
from cog_adapt.server.records.leases import BEAT_SECONDS
from cog_adapt.server.service.adapter_index import IndexWriter
from cog_adapt.server.service.adapter_relay import AdapterRelay

_LOOK_SECONDS: Final = 0.1
_MOST_SECONDS: Final = 30.0  # a lease, a beat, and the end of a worker that does not confirm
log = structlog.get_logger()


class AdapterNews:
    """Reads other servers' changes at each beat, and waits for other servers to read this one's.

    After each read the workers may find adapters until this server's lease ends. So a server that
    cannot read, or was stopped, stops serving adapters by itself, and no other server waits for it
    longer than its lease lasts.

    Args:
        relay: to all workers.
        index: has the numbers of the changes.
        drop_taken: cancels what other servers have taken; called once this server's lease had
            ended, before the workers may go on.
    """

    def __init__(
        self, relay: AdapterRelay, index: IndexWriter, drop_taken: Callable[[], Awaitable[None]]
    ) -> None:
        self._relay = relay
        self._index = index
        self._drop_taken = drop_taken
        self._served_until = 0.0
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin; call this before any worker is started."""
        try:
            self._index.number = await self._index.index.join()
        except StorageError as error:
            log.warning("other servers' changes of adapters cannot be read", error=str(error))
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop reading."""
        if self._task is not None:
            self._task.cancel()

    async def reach_all(self) -> None:
        """Return when all living servers have applied the changes that were made here.

        A server that does not answer is waited for until its lease has ended.

        Raises:
            AdapterTimeout: a server renews its lease, but does not apply the changes.
            StorageError: the database cannot be used, so other servers do not learn of it now.
        """
        await self._index.write_changes()
        index, number = self._index.index, self._index.last_written
        if not number:
            return
        end = lease_clock() + _MOST_SECONDS
        while behind := await index.servers_behind(number):
            if lease_clock() > end:
                raise AdapterTimeout(
                    f"the change is made here, but {len(behind)} other servers have not applied it "
                    f"within {_MOST_SECONDS:g} s ({', '.join(behind)}). Repeat the request, or end "
                    "those servers."
                )
            await asyncio.sleep(_LOOK_SECONDS)

    async def _run(self) -> None:
        while True:
            try:
                await self.read()
            except StorageError as error:
                log.warning("other servers' changes of adapters cannot be read", error=str(error))
            await asyncio.sleep(BEAT_SECONDS)

    async def read(self) -> None:
        """Apply the changes so far, confirm them, and let the workers serve on.

        Raises:
            StorageError: the database cannot be used; the next read tries again.
        """
        index, is_all = self._index.index, False
        while not is_all:
            began = lease_clock()
            read = await index.changes_after(self._index.number)
            if read.are_missed:
                await self._start_again()
                continue
            await self._relay.apply(read.changes)
            self._index.number, is_all = read.last, read.is_all
            if read.confirmed != read.last:
                await index.confirm(read.last)
        if self._served_until <= lease_clock():
            await self._drop_taken()
            self._relay.claims.take_again()
        self._served_until = began + min(read.lease_seconds, LEASE_SECONDS)
        self._relay.keep_serving(self._served_until)

    async def _start_again(self) -> None:
        """Replace all processes, since changes were deleted while this server was stopped."""
        self._index.number = await self._index.index.read_last()
        self._relay.start_again("was ended: its server did not follow other servers for too long")
