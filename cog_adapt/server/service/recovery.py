"""Takes over the predictions of dead servers, and waiting ones of busy servers.

Those of dead servers run here, or end with a reason.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec
import structlog

from cog_adapt.server.errors import RequestError, StorageError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Record, Records
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.mapping import to_request
from cog_adapt.server.service.recorder import PredictionRecorder
from cog_adapt.server.service.work_sharing import WorkSharing

_SECONDS_BETWEEN = 5.0
_EXCHANGES = 5  # with the other living servers, between two looks for dead ones
Find = Callable[[], Awaitable[list[Record]]]
log = structlog.get_logger()


class Recovery:
    """Looks regularly for predictions of dead servers.

    Args:
        dispatchers: by kind.
        records: the database.
        recorder: ends the records that cannot be run again.
        is_possible: returns whether this server could run a prediction now.
        sharing: exchanges waiting work with the other servers.
    """

    def __init__(
        self,
        dispatchers: Mapping[Kind, Dispatcher],
        records: Records,
        recorder: PredictionRecorder,
        is_possible: Callable[[], bool],
        sharing: WorkSharing,
    ) -> None:
        self._sharing = sharing
        self._dispatchers = dispatchers
        self._records = records
        self._recorder = recorder
        self._is_possible = is_possible
        self._left: list[Record] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start looking."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await self._go_on_with(self._find_orphans)
            for _ in range(_EXCHANGES):
                await self._go_on_with(self._sharing.take, offers=True)
                await asyncio.sleep(_SECONDS_BETWEEN / _EXCHANGES)

    async def _go_on_with(self, find: Find, *, offers: bool = False) -> None:
        try:
            if offers:
                await self._sharing.offer()
            async with self._sharing.taking():
                self._left += await find()
                await self._take_over_all()
        except (StorageError, RequestError) as error:
            log.warning("cannot go on with the work of other servers", error=str(error))

    async def _find_orphans(self) -> list[Record]:
        return await self._records.take_over() if self._is_possible() else []

    async def _take_over_all(self) -> None:
        while self._left:
            await self._take_over(self._left[0])
            del self._left[0]

    async def _take_over(self, record: Record) -> None:
        dispatcher, request = self._dispatchers.get(record.kind), to_request(record)
        was_running = record.status == "processing"
        log.info("taken over", prediction_id=record.id, status=record.status)
        if dispatcher is not None and record.key in dispatcher.predictions:
            return  # the prediction still runs here, and its final record replaces this record
        if dispatcher is None or request is None or (was_running and not record.retries_left):
            why = "while it ran" if was_running else "before it ran, and cannot be repeated"
            await self._recorder.fail_orphan(record, f"The server ended {why}.")
            return
        if was_running:
            request = msgspec.structs.replace(request, retries=record.retries_left - 1)
        dispatcher.start()
        await dispatcher.submit(request, is_recovered=True)
