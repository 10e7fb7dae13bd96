"""The predictor's adapters, as the API asks for them: the index answers, the worker acts.

The index follows what the worker says, and each question to it begins with what was said before.
So whoever was answered by a prediction finds its adapter, and whoever was shut out finds none.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import structlog

from cog_adapt.server.adapter_messages import (
    AdapterAction,
    AdapterChanged,
    AdapterFormat,
    AdaptersListed,
)
from cog_adapt.server.errors import DiskFull, NoAdapters, NotFound, NotReady, StorageError
from cog_adapt.server.records.adapter_pages import AdapterPage, AdapterQuery, Asker
from cog_adapt.server.records.adapters import Place
from cog_adapt.server.service.service import PredictionService

Metadata = dict[str, Any]
_SECONDS = 30.0
_FILE_SECONDS = 300.0  # an upload is read and checked, a download is made
_SHOWN = 80
_NONE = (
    "this predictor keeps no adapters; docs/predictor-protocol.md says what one that does offers."
)
log = structlog.get_logger()


@dataclass
class _Filling:
    """The index while one worker process tells what there is.

    Attributes:
        since: what was written before is of the process before.
        newer: what changed while the list was on its way; None when all of it is written.
    """

    since: datetime = field(default_factory=lambda: datetime.now(UTC))
    newer: set[Place] | None = field(default_factory=set)


class Adapters:
    """Finds adapters in the index, and has the worker do the rest.

    Args:
        service: knows the worker, and the records.
    """

    def __init__(self, service: PredictionService) -> None:
        self._service, self._index = service, service.records.adapters
        self._link = service.worker.adapters
        self._link.listener = self
        self._filling = _Filling()
        self._changes: dict[Place, bytes | None] = {}
        self._writing = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()

    def check_offered(self, *, by_worker: bool = False) -> None:
        """Refuse where there is nothing to ask.

        Args:
            by_worker: whether it takes the worker, or the index is enough.

        Raises:
            NoAdapters: the predictor keeps none.
            NotReady: the worker is needed, and not ready.
        """
        worker = self._service.worker
        if worker.ready is not None and not worker.ready.has_adapters:
            raise NoAdapters(_NONE)
        if by_worker and (worker.process.state != "ready" or self._service.is_closing):
            raise NotReady(self._why_not())

    def _why_not(self) -> str:
        if self._service.is_ready and not self._service.is_closing:
            return "the model process starts again after a crash. Send the request again soon."
        return self._service.why_not_ready

    async def page(self, asker: Asker, query: AdapterQuery) -> AdapterPage:
        """Return some adapters that this asker may use, newest first."""
        self.check_offered()
        await self._write_changes()
        return await self._index.page(asker, query)

    async def find(self, asker: Asker, reference: str, owner: str | None = None) -> Metadata:
        """Return the metadata of an adapter that this asker may use.

        Raises:
            NotFound: there is none, or it is another's: in the same words.
        """
        self.check_offered()
        await self._write_changes()
        found = await self._index.find(asker, reference, owner)
        if found is None:
            raise _not_found(reference)
        metadata: Metadata = msgspec.json.decode(found)
        return metadata

    async def change(self, adapter: Metadata, changes: dict[str, Any]) -> Metadata:
        """Change some of an adapter's metadata; return all of it."""
        encoded = msgspec.json.encode(changes)
        return self._note(await self._ask("change", adapter, _SECONDS, changes=encoded))

    async def remove(self, adapter: Metadata) -> dict[str, Any]:
        """Remove an adapter; return what is left that was made from it."""
        answer: dict[str, Any] = await self._ask("remove", adapter, _SECONDS)
        self._put(adapter["owner"], adapter["id"], None)
        return answer

    async def take(self, owner: str, path: Path) -> Metadata:
        """Keep the adapter in a file; return its metadata."""
        self.check_offered(by_worker=True)
        return self._note(await self._link.ask("take", owner, _FILE_SECONDS, path=str(path)))

    @contextlib.asynccontextmanager
    async def temporary_folder(self) -> AsyncIterator[Path]:
        """Make a folder for the time of a block; what a dead worker leaves goes with its files.

        Raises:
            DiskFull: the disk is full.
        """
        prefix = self._service.worker.process.prefix
        try:
            folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix=prefix))
        except OSError as error:
            raise DiskFull(f"no file can be made: {error.strerror}. Try later.") from error
        try:
            yield folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def export(self, adapter: Metadata, kind: AdapterFormat) -> BinaryIO:
        """Return an open file with an adapter, which has no name any more."""
        self.check_offered(by_worker=True)
        async with self.temporary_folder() as folder:
            path = await self._ask("export", adapter, _FILE_SECONDS, format=kind, path=str(folder))
            return await asyncio.to_thread(Path(path).open, "rb")

    async def _ask(
        self, action: AdapterAction, adapter: Metadata, seconds: float, **more: object
    ) -> Any:  # noqa: ANN401
        self.check_offered(by_worker=True)
        owner, adapter_id = adapter["owner"], adapter["id"]
        try:
            return await self._link.ask(action, owner, seconds, adapter_id=adapter_id, **more)
        except NotFound as error:  # it has gone since the index was asked
            raise _not_found(adapter_id) from error

    def on_changed(self, report: AdapterChanged) -> None:
        """Take a change."""
        self._put(report.owner, report.adapter_id, report.metadata)

    def on_listed(self, report: AdaptersListed) -> None:
        """Take some of all adapters."""
        self._start(self._write_listed(report, self._filling))

    def on_exit(self) -> None:
        """Expect another list."""
        self._filling = _Filling()

    async def settle(self) -> None:
        """Return when all that was said so far is written, or has failed."""
        await asyncio.gather(*self._tasks)

    def _note(self, metadata: Metadata) -> Metadata:
        self._put(metadata["owner"], metadata["id"], msgspec.json.encode(metadata))
        return metadata

    def _put(self, owner: str, adapter_id: str, metadata: bytes | None) -> None:
        """Write soon, the last state of each; a question to the index writes at once."""
        if self._filling.newer is not None:
            self._filling.newer.add((owner, adapter_id))
        if not self._changes:
            self._start(self._write_changes())
        self._changes[owner, adapter_id] = metadata

    async def _write_changes(self) -> None:
        async with self._writing:
            changes, self._changes = self._changes, {}
            try:
                if changes:
                    await self._index.write(changes)
            except StorageError:
                self._changes = changes | self._changes
                raise

    async def _write_listed(self, report: AdaptersListed, filling: _Filling) -> None:
        async with self._writing:
            if filling is not self._filling or filling.newer is None:
                return  # of a process that is gone
            await self._index.write_list(report.metadata, frozenset(filling.newer))
            if report.is_last:
                filling.newer = None
                if report.is_whole:
                    await self._index.forget_before(filling.since)

    def _start(self, writing: Any) -> None:  # noqa: ANN401
        task = asyncio.get_running_loop().create_task(_logging_failure(writing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _logging_failure(writing: Any) -> None:  # noqa: ANN401
    try:
        await writing
    except StorageError as error:
        log.warning("the index of adapters cannot be written", error=str(error))


def _not_found(reference: str) -> NotFound:
    return NotFound(f"there is no adapter {reference[:_SHOWN]!r}; GET /adapters lists yours.")
