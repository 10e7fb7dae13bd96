"""Records every change of a prediction in the database, and at its end the webhook to send.

A failure here never stops a prediction.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Final

import msgspec
import structlog

from cog_adapt.server.errors import IdInUse, NotRecorded, StorageError, TakenOverError
from cog_adapt.server.records import Record, Records
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.service.announcer import Announcer
from cog_adapt.server.service.mapping import completed_delivery, orphan_delivery, to_record
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction, now
from cog_adapt.server.webhooks import Webhooks, shown_url

_FIRST_WRITE_SECONDS = 0.1
RETRY_SECONDS: Final = 0.5
log = structlog.get_logger()


class PredictionRecorder:
    """Records the changes of predictions.

    Args:
        records: the database.
        webhooks: sends events.
        announcer: calls webhooks before the end.
        observer: gives the trace headers for webhooks, and counts failed writes.
    """

    def __init__(
        self, records: Records, webhooks: Webhooks, announcer: Announcer, observer: Observer
    ) -> None:
        self._records = records
        self._webhooks = webhooks
        self.space = records.space
        self._announcer = announcer
        self._observer = observer
        self._writing: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def accept(self, prediction: Prediction, *, is_recovered: bool = False) -> None:
        """Record an accepted prediction; return once it is on disk if no client waits for it.

        A prediction with a waiting client is written later: most end before, and are written once.
        Where several servers share the database, the client's own id is written first, so that of
        equal requests at two servers one runs.

        Raises:
            IdInUse: another server has this id.
            NotRecorded: the database cannot be written now.
        """
        if is_recovered:
            self._records.save(to_record(prediction))
        elif self._is_written_first(prediction):
            await self._save_accepted(to_record(prediction))
        else:
            self._write_if_it_lasts(prediction)
        if prediction.request.webhook is not None:
            self._announcer.follow(prediction)

    @property
    def has_peers(self) -> bool:
        """Whether servers of other hosts may answer requests about what runs here."""
        return self._records.peers.is_shared

    def _is_written_first(self, prediction: Prediction) -> bool:
        request = prediction.request
        return request.durable or (request.has_client_id and self.has_peers)

    async def _save_accepted(self, record: Record) -> None:
        try:
            await self._records.save_durably(record)
        except TakenOverError as error:
            raise IdInUse(f"id {record.id!r} is in use at another server.") from error
        except StorageError as error:
            raise NotRecorded(f"the prediction cannot be recorded: {error}") from error

    def _write_if_it_lasts(self, prediction: Prediction) -> None:
        def write() -> None:
            self._records.save(to_record(prediction))

        timer = asyncio.get_running_loop().call_later(_FIRST_WRITE_SECONDS, write)
        prediction.done.add_done_callback(lambda _: timer.cancel())

    def begin(self, prediction: Prediction, then: Callable[..., object]) -> None:
        """Record that the prediction begins, so that no other server also runs it.

        Where other servers share the database, a prediction whose beginning is not recorded would
        seem to wait: another server would run it too. So it begins once the database can be
        written.

        Args:
            prediction: one whose record suffices to run it.
            then: called with `is_ours`, which is false if another server has the prediction.
        """
        self._spawn(self._begin(prediction, then))

    async def _begin(self, prediction: Prediction, then: Callable[..., object]) -> None:
        is_ours = await self._is_begun_here(prediction)
        while is_ours is None and not (prediction.is_cancelled or self._is_closing):
            await asyncio.sleep(RETRY_SECONDS)
            is_ours = await self._is_begun_here(prediction)
        then(is_ours=is_ours is not False)

    async def _is_begun_here(self, prediction: Prediction) -> bool | None:
        """Record the beginning; return None if the database has to be asked again first."""
        record = msgspec.structs.replace(
            to_record(prediction), status="processing", started_at=now()
        )
        try:
            await self._records.save_durably(record)
        except TakenOverError:
            return False
        except StorageError as error:
            log.warning("beginning is not recorded", prediction_id=record.id, error=str(error))
            return None if self.has_peers else True
        return True

    def started(self, prediction: Prediction) -> None:
        """Record that the worker has begun the prediction."""
        if self._is_written_first(prediction) and not prediction.request.recoverable:
            self._records.save(to_record(prediction))
        if prediction.request.wants("start"):
            self._announcer.announce(prediction, "start")

    def requeued(self, prediction: Prediction) -> None:
        """Record that the prediction waits again after a crash."""
        self._records.save(to_record(prediction))

    def on_log(self, prediction: Prediction) -> None:
        """Announce that the prediction printed something."""
        if prediction.request.wants("logs"):
            self._announcer.announce_logs(prediction)

    def on_output(self, prediction: Prediction) -> None:
        """Announce an item of the prediction's output."""
        if prediction.request.wants("output"):
            self._announcer.announce_output(prediction)

    def finished(self, prediction: Prediction) -> None:
        """Write the final record and the last webhook in one transaction."""
        request = prediction.request
        self._announcer.forget(prediction)
        record, deliveries = to_record(prediction), []
        if request.wants("completed"):
            deliveries = [completed_delivery(prediction, self._observer.headers(prediction))]
        if deliveries or request.durable or request.has_client_id:
            # so that a PUT finds it from now on
            saved = self._records.save_at_once(record, deliveries)
            prediction.written = self._spawn(self._write_end(prediction, saved, deliveries))
        else:
            self._records.save(record)

    def moved(self, prediction: Prediction) -> None:
        """Say nothing more about a prediction that another server has taken."""
        self._announcer.forget(prediction)

    async def _write_end(
        self,
        prediction: Prediction,
        saved: "asyncio.Future[None]",
        deliveries: list[Delivery],
    ) -> None:
        record = to_record(prediction)
        try:
            await saved
        except TakenOverError as error:
            prediction.has_moved = True
            log.warning("end is left to another server", prediction_id=record.id, error=str(error))
            return
        except StorageError as error:
            log.warning("final record is late", prediction_id=record.id, error=str(error))
            self._observer.record_error()
            self._records.save(record, deliveries)
        for delivery in deliveries:
            self._webhooks.complete(delivery)

    async def fail_orphan(self, record: Record, error: str) -> None:
        """Record a dead server's prediction as failed, and send the prediction's last webhook."""
        ended = msgspec.structs.replace(
            record, status="failed", error=error, completed_at=now(), payload=None
        )
        wants = record.webhook is not None and "completed" in (record.webhook_events or ())
        deliveries = [orphan_delivery(ended)] if wants else []
        if record.webhook is not None:
            ended = msgspec.structs.replace(ended, webhook=shown_url(record.webhook))
        await self._records.save_durably(ended, deliveries)
        for delivery in deliveries:
            self._webhooks.complete(delivery)

    async def flush(self) -> None:
        """Wait until every last webhook has been handed over; afterwards no prediction begins."""
        self._is_closing = True
        while self._writing:
            await asyncio.wait(self._writing)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return task
