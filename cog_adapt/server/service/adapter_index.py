"""Keeps the index of adapters up to date with the worker's list and its later changes."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import structlog

from cog_adapt.server.adapter_messages import AdapterChanged, AdaptersListed
from cog_adapt.server.errors import StorageError
from cog_adapt.server.records.adapters import AdapterIndex, Place

_SHOWN = 5
# the task calls it, so that a server may end before it begins
Writing = Callable[[], Awaitable[None]]
log = structlog.get_logger()


@dataclass
class _Filling:
    """The index while one worker process sends its list.

    Attributes:
        since: earlier entries are those of the previous process.
        newer: changes since the list began; None when the whole list is written.
    """

    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    newer: set[Place] | None = field(default_factory=set)


class IndexWriter:
    """Writes a worker's messages about adapters into the index, in their order.

    Args:
        index: the index.
        has_owners: whether keys are set.

    Attributes:
        owners: those that this worker was asked to describe.
    """

    def __init__(self, index: AdapterIndex, *, has_owners: bool = False) -> None:
        self._index = index
        self._has_owners = has_owners
        self._filling = _Filling()
        self.owners: dict[str, asyncio.Task[None]] = {}
        self._changes: dict[Place, bytes | None] = {}
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def on_changed(self, report: AdapterChanged) -> None:
        """Accept a change."""
        self.put(report.owner, report.adapter_id, report.metadata)

    def on_listed(self, report: AdaptersListed) -> None:
        """Accept one batch of the worker's full list."""
        self._start(partial(self._write_listed, report, self._filling))

    def on_exit(self) -> None:
        """Prepare for a new list of the worker's adapters."""
        self._filling = _Filling()
        self.owners.clear()

    async def settle(self) -> None:
        """Wait until all messages so far are written, or have failed."""
        await asyncio.gather(*self._tasks)

    def put(self, owner: str, adapter_id: str, metadata: bytes | None) -> None:
        """Write an adapter's last state soon; a query of the index writes all states at once."""
        if self._filling.newer is not None:
            self._filling.newer.add((owner, adapter_id))
        if not self._changes:
            self._start(self.write_changes)
        self._changes[owner, adapter_id] = metadata

    async def write_changes(self) -> None:
        """Write the changes.

        Raises:
            StorageError: it cannot be written now; the next call tries again.
        """
        async with self._writing:
            changes = self._changes
            self._changes = {}
            if changes:
                await self._write_or_keep(changes)

    async def _write_or_keep(self, changes: dict[Place, bytes | None]) -> None:
        try:
            await self._index.write(changes)
        except StorageError:
            self._changes = changes | self._changes
            raise

    async def _write_listed(self, report: AdaptersListed, filling: _Filling) -> None:
        async with self._writing:
            if filling is not self._filling or filling.newer is None:
                return  # of a process that has ended
            await self._index.write_list(report.metadata, frozenset(filling.newer))
            if report.is_last:
                await self._end_list(report, filling)

    async def _end_list(self, report: AdaptersListed, filling: _Filling) -> None:
        filling.newer = None
        if report.is_whole:
            await self._index.forget_before(filling.since)
            await self._name_unowned()

    async def _name_unowned(self) -> None:
        """Log once the adapters that only an admin sees now that keys are set."""
        if not self._has_owners:
            return
        self._has_owners = False
        count, names = await self._index.unowned(_SHOWN)
        if count:
            log.warning(
                "adapters that nobody owns are only for keys with the scope admin: "
                "`cog-adapt adapters give NAME OWNER` gives one to an owner",
                count=count,
                adapters=names,
            )

    def _start(self, write: Writing) -> None:
        task = asyncio.get_running_loop().create_task(_logging_failure(write))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _logging_failure(write: Writing) -> None:
    try:
        await write()
    except StorageError as error:
        log.warning("the index of adapters cannot be written", error=str(error))
