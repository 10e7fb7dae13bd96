"""Sends one worker's adapter changes to all others before the caller is answered."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

import structlog

from cog_adapt.server.adapter_messages import AdapterChanged, AdaptersListed
from cog_adapt.server.errors import NotReady, RequestError
from cog_adapt.server.service.adapter_index import IndexWriter
from cog_adapt.server.service.adapter_link import NOTE_SECONDS
from cog_adapt.server.service.worker import Worker

log = structlog.get_logger()


class AdapterRelay:
    """Writes each worker's adapter messages into the index, and sends them to the other workers.

    A worker that does not confirm a message is ended, since the worker would still use adapters
    that were removed or unshared; the next process reads the files.

    Args:
        workers: all workers that keep adapters; the list of the first worker fills the index.
        index: the index that answers the routes.
    """

    def __init__(self, workers: Sequence[Worker], index: IndexWriter) -> None:
        self._workers = workers
        self._index = index
        self._notes: set[asyncio.Task[None]] = set()
        for number, worker in enumerate(workers):
            worker.adapters.listener = _Sayings(self, worker, index if number == 0 else None)

    def put(self, report: AdapterChanged, origin: Worker) -> None:
        """Write a change into the index soon, and send it to all workers but its own."""
        self._index.put(report.owner, report.adapter_id, report.metadata)
        for worker in self.others(origin):
            task = asyncio.get_running_loop().create_task(_tell(worker, report))
            self._notes.add(task)
            task.add_done_callback(self._notes.discard)

    async def settle(self) -> None:
        """Return when each worker has confirmed all messages so far, or is ended."""
        if self._notes:
            await asyncio.wait({*self._notes})

    async def forget(self, origin: Worker, owner: str, key: str) -> None:
        """Make all workers but one drop their cached adaptations: of one key, or all."""
        for worker in self.others(origin):
            asking = worker.adapters.ask("forget", owner, NOTE_SECONDS, adapter_id=key)
            await _insist(worker, asking)

    def others(self, origin: Worker) -> list[Worker]:
        """Return the workers to inform: those that run and may keep adapters."""
        return [each for each in self._workers if each is not origin and _may_keep(each)]


class _Sayings:
    """Listens to one worker."""

    def __init__(self, relay: AdapterRelay, worker: Worker, index: IndexWriter | None) -> None:
        self._relay = relay
        self._worker = worker
        self._index = index

    def on_changed(self, report: AdapterChanged) -> None:
        self._relay.put(report, self._worker)

    def on_listed(self, report: AdaptersListed) -> None:
        if self._index is not None:
            self._index.on_listed(report)

    def on_exit(self) -> None:
        if self._index is not None:
            self._index.on_exit()


def _may_keep(worker: Worker) -> bool:
    """Return whether a worker may know adapters; True before the worker is ready."""
    if worker.state != "ready":
        return True
    return worker.ready is not None and worker.ready.has_adapters


async def _tell(worker: Worker, report: AdapterChanged) -> None:
    await _insist(worker, worker.adapters.note(report.owner, report.adapter_id, report.metadata))


async def _insist(worker: Worker, asking: Coroutine[Any, Any, object]) -> None:
    """Wait for a worker to confirm; end it if it does not."""
    try:
        await asking
    except NotReady:
        return  # it has ended, and the next process reads the files
    except RequestError as error:
        log.warning("a worker has not taken note of an adapter", error=str(error))
        worker.replace("was ended, because it did not take note that an adapter had changed")
