"""Sends each change of an adapter to all workers that did not make it."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any

import structlog

from cog_adapt.server.adapter_messages import (
    AdapterChanged,
    AdaptersListed,
    Claim,
    Unclaim,
)
from cog_adapt.server.errors import NotReady, RequestError
from cog_adapt.server.records.adapter_changes import AdapterChange
from cog_adapt.server.service.adaptation_claims import AdaptationClaims
from cog_adapt.server.service.adapter_index import IndexWriter, WorkerList
from cog_adapt.server.service.adapter_link import NOTE_SECONDS
from cog_adapt.server.service.worker import Worker

log = structlog.get_logger()


class AdapterRelay:
    """Writes each worker's adapter messages into the index, and sends them to the other workers.

    A worker that does not confirm a message is ended, since the worker would still use adapters
    that were removed or unshared; the next process reads the files.

    Args:
        leading: the workers whose lists fill the index.
        others: all other workers that may keep adapters.
        index: the index that answers the routes.
        claims: grants the workers' claims to adaptations.
        on_exit: called at the end of the process of a leading worker.
    """

    def __init__(
        self,
        leading: Sequence[Worker],
        others: Sequence[Worker],
        index: IndexWriter,
        claims: AdaptationClaims,
        on_exit: Callable[[], None],
    ) -> None:
        self.claims = claims
        self._workers = [*leading, *others]
        self._index = index
        self._notes: set[asyncio.Task[None]] = set()
        for worker in leading:
            worker.adapters.listener = _LeadingSayings(self, worker, WorkerList(index), on_exit)
        for worker in others:
            worker.adapters.listener = _Sayings(self, worker)

    def put(self, report: AdapterChanged, origin: Worker) -> None:
        """Write a change into the index soon, and send it to all workers but its own."""
        self._index.put(report.owner, report.adapter_id, report.metadata)
        for worker in self.others(origin):
            task = asyncio.get_running_loop().create_task(_tell(worker, report))
            self._notes.add(task)
            task.add_done_callback(self._notes.discard)

    def unwritten(self) -> asyncio.Task[None] | None:
        """Return the write of all changes so far into the index; None: they are written."""
        return self._index.unwritten

    async def settle(self) -> None:
        """Return when each worker has confirmed all messages so far, or is ended."""
        if self._notes:
            await asyncio.wait({*self._notes})

    async def forget(self, origin: Worker | None, owner: str, key: str) -> None:
        """Make all workers but one drop their cached adaptations: of one key, or all."""
        for worker in self.others(origin):
            asking = worker.adapters.ask("forget", owner, NOTE_SECONDS, adapter_id=key)
            await _insist(worker, asking)

    async def apply(self, changes: Iterable[AdapterChange]) -> None:
        """Send other servers' changes; return when each worker has confirmed, or is ended."""
        for change in changes:
            if change.forgotten_key is not None:
                await self.forget(None, change.owner, change.forgotten_key)
                continue
            report = AdapterChanged(change.owner, change.adapter_id, change.metadata)
            await asyncio.gather(*(_tell(worker, report) for worker in self.others(None)))

    def keep_serving(self, until: float) -> None:
        """Let all workers find adapters until this moment, by `lease_clock`."""
        for worker in self._workers:
            worker.adapters.keep_serving(until)

    def start_again(self, cause: str) -> None:
        """End all processes; the next ones read the files."""
        for worker in self._workers:
            worker.replace(cause)

    def others(self, origin: Worker | None) -> list[Worker]:
        """Return the workers to inform: those that run and may keep adapters."""
        return [each for each in self._workers if each is not origin and _may_keep(each)]


class _Sayings:
    """Listens to one worker."""

    def __init__(self, relay: AdapterRelay, worker: Worker) -> None:
        self._relay = relay
        self._worker = worker

    def on_changed(self, report: AdapterChanged) -> None:
        self._relay.put(report, self._worker)

    def unwritten(self) -> asyncio.Task[None] | None:
        return self._relay.unwritten()

    def on_listed(self, report: AdaptersListed) -> None:
        """Leave the index to the leading workers."""

    def on_claim(self, report: Claim | Unclaim) -> None:
        if isinstance(report, Claim):
            self._relay.claims.ask(self._worker, report)
        else:
            self._relay.claims.release(self._worker, report.number)

    def on_exit(self) -> None:
        self._relay.claims.on_exit(self._worker)


class _LeadingSayings(_Sayings):
    """Listens to a worker whose list fills the index."""

    def __init__(
        self, relay: AdapterRelay, worker: Worker, files: WorkerList, on_exit: Callable[[], None]
    ) -> None:
        super().__init__(relay, worker)
        self._files = files
        self._on_exit = on_exit

    def on_listed(self, report: AdaptersListed) -> None:
        self._files.on_listed(report)

    def on_exit(self) -> None:
        super().on_exit()
        self._files.on_exit()
        self._on_exit()


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
