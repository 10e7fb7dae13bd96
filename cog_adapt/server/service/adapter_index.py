"""Keeps the index of adapters up to date with the workers' lists and their later changes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

import structlog

from cog_adapt.server.adapter_messages import AdaptersListed
from cog_adapt.server.errors import NotFound, RequestError, StorageError
from cog_adapt.server.records.adapters import AdapterIndex, Place

_SHOWN = 5
# the task calls it, so that a server may end before it begins
Writing = Callable[[], Awaitable[None]]
log = structlog.get_logger()


@dataclass
class _Filling:
    """The index while one worker process sends its list.

    Attributes:
        after: the number of a change that was made before the process read a file.
        since: earlier entries are those of processes before it.
        is_over: whether the whole list is written.
    """

    after: int
    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    is_over: bool = False


class WorkerList:
    """Writes the list that each process of one worker sends.

    All workers of all servers list the same files. So a row that any of them has written since this
    process was started is newer than the process's list, and stays.

    Args:
        writer: writes the index.
    """

    def __init__(self, writer: "IndexWriter") -> None:
        self._writer = writer
        self._filling = _Filling(writer.number)

    def on_listed(self, report: AdaptersListed) -> None:
        """Accept one batch of the full list."""
        self._writer.start(partial(self._write, report, self._filling))

    def on_exit(self) -> None:
        """Prepare for the list of the worker's next process."""
        self._filling = _Filling(self._writer.number)

    async def _write(self, report: AdaptersListed, filling: _Filling) -> None:
        async with self._writer.writing:
            if filling is not self._filling or filling.is_over:
                return  # of a process that has ended
            index = self._writer.index
            await index.write_list(report.metadata, filling.since, filling.after)
            filling.is_over = report.is_last
            if report.is_last and report.is_whole:
                await index.forget_before(filling.since, filling.after)
                await self._writer.name_unowned()


class IndexWriter:
    """Writes the workers' messages about adapters into the index, in their order.

    Args:
        index: the index.
        has_owners: whether keys are set.

    Attributes:
        number: of a change up to which all workers know all changes.
        last_written: the number of the last change that was written here.
        writing: held during a write.
    """

    def __init__(self, index: AdapterIndex, *, has_owners: bool = False) -> None:
        self.index = index
        self.number = 0
        self.last_written = 0
        self.writing = asyncio.Lock()
        self._has_owners = has_owners
        self._changes: dict[Place, bytes | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last: asyncio.Task[None] | None = None

    @property
    def unwritten(self) -> "asyncio.Task[None] | None":
        """The write of all changes so far; None: they are written, or could not be."""
        return self._last if self._last is not None and not self._last.done() else None

    async def settle(self) -> None:
        """Wait until all messages so far are written, or have failed."""
        await asyncio.gather(*self._tasks)

    def put(self, owner: str, adapter_id: str, metadata: bytes | None) -> None:
        """Write an adapter's last state soon; a query of the index writes all states at once."""
        if not self._changes:
            self._last = self.start(self.write_changes)
        self._changes[owner, adapter_id] = metadata

    async def write_changes(self) -> None:
        """Write the changes.

        Raises:
            StorageError: it cannot be written now; the next call tries again.
        """
        async with self.writing:
            changes = self._changes
            self._changes = {}
            if changes:
                await self._write_or_keep(changes)

    @asynccontextmanager
    async def removing(self, owner: str, adapter_id: str, metadata: bytes) -> AsyncIterator[None]:
        """Tell other servers of a removal before it begins, and when it is done or has failed.

        Args:
            owner: of the adapter.
            adapter_id: of the adapter.
            metadata: as JSON, of which they are told if it stays.

        Raises:
            StorageError: they cannot be told; nothing is to be removed.
        """
        self.put(owner, adapter_id, None)
        try:
            await self.write_changes()
            yield
        except (RequestError, StorageError) as error:
            self.put(owner, adapter_id, None if isinstance(error, NotFound) else metadata)
            raise
        self.put(owner, adapter_id, None)

    async def write_forgotten(self, owner: str, key: str) -> None:
        """Tell other servers to forget a cached adaptation, "" for all of an owner's.

        Raises:
            StorageError: it cannot be written now.
        """
        self._note(await self.index.note_forgotten(owner, key))

    async def _write_or_keep(self, changes: dict[Place, bytes | None]) -> None:
        try:
            self._note(await self.index.write(changes))
        except StorageError:
            self._changes = changes | self._changes
            raise

    def _note(self, number: int) -> None:
        self.last_written = max(self.last_written, number)

    async def name_unowned(self) -> None:
        """Log once the adapters that only an admin sees now that keys are set."""
        if not self._has_owners:
            return
        self._has_owners = False
        count, names = await self.index.unowned(_SHOWN)
        if count:
            log.warning(
                "adapters that nobody owns are only for keys with the scope admin: "
                "`cog-adapt adapters give NAME OWNER` gives one to an owner",
                count=count,
                adapters=names,
            )

    def start(self, write: Writing) -> "asyncio.Task[None]":
        """Write in a task of its own; a failure is logged."""
        task = asyncio.get_running_loop().create_task(_logging_failure(write))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _logging_failure(write: Writing) -> None:
    try:
        await write()
    except StorageError as error:
        log.warning("the index of adapters cannot be written", error=str(error))
