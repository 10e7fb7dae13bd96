"""The predictor's adapters for the API: the index answers, the worker acts.

The index follows the worker's messages, and each query waits for the earlier messages. So a client
sees the adapter its prediction made, and loses sight of one as soon as it is unshared.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import structlog

from cog_adapt.adapter_metadata import MetadataJson
from cog_adapt.adapter_rule import Asker, SeveralOwners
from cog_adapt.server.adapter_messages import (
    AdapterAction,
    AdapterChanged,
    AdapterFormat,
)
from cog_adapt.server.errors import (
    DiskFull,
    InvalidRequest,
    NoAdapters,
    NotFound,
    NotReady,
    RequestError,
)
from cog_adapt.server.files.temp_files import folder_prefix
from cog_adapt.server.records.adapter_pages import AdapterQuery, IndexPage
from cog_adapt.server.service.adaptation_claims import AdaptationClaims
from cog_adapt.server.service.adapter_index import IndexWriter
from cog_adapt.server.service.adapter_news import AdapterNews
from cog_adapt.server.service.adapter_relay import AdapterRelay
from cog_adapt.server.service.service import PredictionService
from cog_adapt.server.service.worker import Worker

_SECONDS = 30.0
_FILE_SECONDS = 300.0  # for an upload's check, and for making a download
_SHOWN = 80
_NONE = (
    "this predictor keeps no adapters; docs/predictor-protocol.md describes a predictor that does."
)
log = structlog.get_logger()


class AdapterService:
    """Finds adapters in the index; a worker does the rest.

    Args:
        service: gives the workers and the records.

    Attributes:
        claims: the workers' claims to adaptations.
        news: of other servers.
    """

    def __init__(self, service: PredictionService) -> None:
        self._service = service
        self._index = service.records.adapters
        has_owners = service.settings.api_keys_file is not None
        self._writer = IndexWriter(self._index, has_owners=has_owners)
        self._met: dict[str, asyncio.Task[None]] = {}  # owners that a worker described
        leading = service.main.workers
        parts = service.dispatchers.values()
        others = [each for part in parts if part is not service.main for each in part.workers]
        self.claims = AdaptationClaims(service.records.claims)
        self._relay = AdapterRelay(
            leading, others, self._writer, claims=self.claims, on_exit=self._met.clear
        )
        self.news = AdapterNews(self._relay, self._writer, service.drop_taken)

    @property
    def _worker(self) -> Worker:
        """A worker that acts on adapters: the first that is ready, else the first."""
        workers = self._service.main.workers
        return next((each for each in workers if each.state == "ready"), workers[0])

    def check_offered(self, *, by_worker: bool = False) -> None:
        """Refuse requests that cannot be served.

        Args:
            by_worker: whether the request needs the worker; else the index suffices.

        Raises:
            NoAdapters: the predictor keeps none.
            NotReady: the worker is needed, and not ready.
        """
        worker = self._worker
        if worker.ready is not None and not worker.ready.has_adapters:
            raise NoAdapters(_NONE)
        if by_worker and (worker.state != "ready" or self._service.is_closing):
            raise NotReady(self._why_not())

    def _why_not(self) -> str:
        if self._service.is_ready and not self._service.is_closing:
            return "the model process starts again after a crash. Send the request again soon."
        return self._service.why_not_ready

    async def page(self, asker: Asker, query: AdapterQuery) -> IndexPage:
        """Return some adapters that this asker may use, newest first."""
        await self._prepare(asker)
        return await self._index.page(asker, query)

    async def find(
        self,
        asker: Asker,
        reference: str,
        owner: str | None = None,
        *,
        to_change: bool = False,
    ) -> MetadataJson:
        """Return the metadata of an adapter that this asker may use.

        Raises:
            NotFound: there is none, or it is another owner's: in the same words.
            InvalidRequest: the reference fits adapters of several owners.
        """
        await self._prepare(asker)
        try:
            found = await self._index.find(asker, reference, owner, to_change=to_change)
        except SeveralOwners as error:
            raise InvalidRequest(str(error), ("query", "owner")) from error
        if found is None:
            raise _not_found(reference)
        metadata: MetadataJson = msgspec.json.decode(found)
        return metadata

    async def find_own(self, owner: str, adapter_id: str | None = None) -> list[MetadataJson]:
        """Return the metadata of an owner's own adapters, of one or of all; empty without any."""
        try:
            await self._prepare(Asker(owner))
        except NoAdapters:
            return []
        return [msgspec.json.decode(each) for each in await self._index.own(owner, adapter_id)]

    async def _prepare(self, asker: Asker) -> None:
        """Bring the index up to date with the worker's adapters of an asker."""
        self.check_offered()
        if asker.owner and self._worker.state == "ready":
            await asyncio.shield(self._meet(asker.owner))
        await self._writer.write_changes()

    def _meet(self, owner: str) -> "asyncio.Task[None]":
        """Name an owner to each worker once, because files of old adapters may lack the owner."""
        if owner not in self._met:
            introducing = self._introduce(owner)
            self._met[owner] = asyncio.get_running_loop().create_task(introducing)
        return self._met[owner]

    async def _introduce(self, owner: str) -> None:
        try:
            await self._worker.adapters.ask("describe", owner, _SECONDS)
        except RequestError as error:
            self._met.pop(owner, None)
            log.warning("the adapters of an owner are not described", error=str(error))

    async def change(self, adapter: MetadataJson, changes: dict[str, Any]) -> MetadataJson:
        """Change some of an adapter's metadata; return all of it once all servers know it."""
        encoded = msgspec.json.encode(changes)
        return await self._noted(await self._ask("change", adapter, _SECONDS, changes=encoded))

    async def remove(self, adapter: MetadataJson) -> dict[str, Any]:
        """Remove an adapter from this server; return the remaining ones that were made from it.

        Other servers are told before and after: if this one is killed in between, none of them
        uses a copy of what is gone. `reach_all` waits for them.
        """
        origin, owner, adapter_id = self._worker, adapter["owner"], adapter["id"]
        self.check_offered(by_worker=True)
        try:
            async with self._writer.removing(owner, adapter_id, msgspec.json.encode(adapter)):
                answer: dict[str, Any] = await self._ask("remove", adapter, _SECONDS)
        except NotFound:  # another worker may not know the adapter
            self._relay.put(AdapterChanged(owner, adapter_id), origin)
            raise
        finally:
            await self._relay.settle()
        return answer

    async def forget(self, owner: str, key: str = "") -> None:
        """Drop this server's cached adaptations without an adapter: of one key, or all."""
        worker = self._worker
        if worker.ready is not None and worker.ready.has_adapters:
            self.check_offered(by_worker=True)
            await worker.adapters.ask("forget", owner, _SECONDS, adapter_id=key)
            await self._relay.forget(worker, owner, key)
            await self._writer.write_forgotten(owner, key)

    async def reach_all(self) -> None:
        """Return when no living server uses what was changed or removed so far.

        Raises:
            AdapterTimeout: another server does not confirm.
            StorageError: the database cannot be used, so other servers do not learn of it now.
        """
        await self.news.reach_all()

    async def take(self, owner: str, path: Path) -> MetadataJson:
        """Store the adapter in a file; return its metadata once all servers know it."""
        self.check_offered(by_worker=True)
        asking = self._worker.adapters.ask("take", owner, _FILE_SECONDS, path=str(path))
        return await self._noted(await asking)

    @contextlib.asynccontextmanager
    async def temporary_folder(self) -> AsyncIterator[Path]:
        """Make a folder for the duration of a block.

        If the worker dies, the folder is removed with the worker's temporary files.

        Raises:
            DiskFull: the disk is full.
        """
        folder = await asyncio.to_thread(_make_folder, folder_prefix(self._worker.prefix))
        try:
            yield folder
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def export(self, adapter: MetadataJson, kind: AdapterFormat) -> BinaryIO:
        """Return an open file with an adapter; the file has no name any more."""
        self.check_offered(by_worker=True)
        async with self.temporary_folder() as folder:
            path = await self._ask("export", adapter, _FILE_SECONDS, format=kind, path=str(folder))
            return await asyncio.to_thread(Path(path).open, "rb")

    async def _ask(
        self, action: AdapterAction, adapter: MetadataJson, seconds: float, **more: object
    ) -> Any:  # noqa: ANN401
        self.check_offered(by_worker=True)
        owner, adapter_id = adapter["owner"], adapter["id"]
        try:
            return await self._worker.adapters.ask(
                action, owner, seconds, adapter_id=adapter_id, **more
            )
        except NotFound as error:  # it was removed after the index was read
            raise _not_found(adapter_id) from error

    async def settle(self) -> None:
        """Wait until all messages so far are written, or have failed."""
        await self._relay.settle()
        await self._writer.settle()

    async def _noted(self, metadata: MetadataJson) -> MetadataJson:
        """Send the worker's earlier messages to all workers and servers before this answer."""
        self._writer.put(metadata["owner"], metadata["id"], msgspec.json.encode(metadata))
        await self._relay.settle()
        await self.reach_all()
        return metadata


def _make_folder(prefix: str) -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix=prefix))
    except OSError as error:
        raise DiskFull(f"no file can be made: {error.strerror}. Try later.") from error


def _not_found(reference: str) -> NotFound:
    return NotFound(f"there is no adapter {reference[:_SHOWN]!r}; GET /adapters lists yours.")
