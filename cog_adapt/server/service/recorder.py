"""What is told about predictions: to the database, to webhooks, to operators.

The dispatchers decide what happens; the recorder writes it down, and never stops them.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import structlog

from cog_adapt.server.errors import StorageError, TakenOverError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import Record, Records
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.service.deferred import DeferredCalls
from cog_adapt.server.service.mapping import completed_delivery, orphan_delivery, to_record
from cog_adapt.server.service.prediction import Prediction, encode, now
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import Trace, Traces
from cog_adapt.server.webhooks import Announcement, LogThrottle, Webhooks

_LASTS = 0.1
log = structlog.get_logger()


class _Tracking:
    """What one prediction needs on the side."""

    def __init__(self, trace: Trace, throttle: LogThrottle) -> None:
        self.trace, self.throttle = trace, throttle
        self.late_logs: asyncio.TimerHandle | None = None


class Recorder:
    """Writes down what happens to predictions.

    Args:
        records: the database.
        webhooks: sends events.
        metrics: counts.
        traces: follows requests across services.
        log_interval: seconds between two `logs` webhooks.
    """

    def __init__(
        self,
        records: Records,
        webhooks: Webhooks,
        metrics: Metrics,
        traces: Traces,
        log_interval: float,
    ) -> None:
        self._records, self._webhooks = records, webhooks
        self._metrics, self._traces = metrics, traces
        self._log_interval = log_interval
        self._tracking: dict[tuple[Kind, str], _Tracking] = {}
        self._writing: set[asyncio.Task[None]] = set()
        self._deferred = DeferredCalls(_LASTS)

    async def accept(self, prediction: Prediction, *, is_recovered: bool = False) -> None:
        """A prediction is accepted; if nobody waits for its answer, only once it is on disk.

        One that a client waits for is written if it lasts: most end before, and are written once.

        Raises:
            StorageError: it cannot be written now.
        """
        request = prediction.request
        if is_recovered:
            self._records.save(to_record(prediction))
        elif request.durable:
            await self._records.save_durably(to_record(prediction))
        else:
            self._write_if_it_lasts(prediction)
        trace = self._traces.begin(request.headers, request.kind, request.id, request.context)
        self._tracking[request.kind, request.id] = _Tracking(trace, LogThrottle(self._log_interval))
        trace.queued()
        self._metrics.accepted(request.kind)

    def _write_if_it_lasts(self, prediction: Prediction) -> None:
        def write() -> None:
            if not prediction.is_final:
                self._records.save(to_record(prediction))

        self._deferred.add(write)

    def begin(self, prediction: Prediction, then: Callable[..., object]) -> None:
        """Write down that it begins, so that no other server runs it again unasked.

        Args:
            prediction: that could be run from its record.
            then: called with `is_ours`, which is false where another server has it.
        """
        record = msgspec.structs.replace(
            to_record(prediction), status="processing", started_at=now()
        )
        self._spawn(self._begin(record, then))

    async def _begin(self, record: Record, then: Callable[..., object]) -> None:
        is_ours = True
        try:
            await self._records.save_durably(record)
        except TakenOverError:
            is_ours = False
        except StorageError as error:  # better run than kept waiting
            log.warning("beginning is not recorded", prediction_id=record.id, error=str(error))
        then(is_ours=is_ours)

    def started(self, prediction: Prediction) -> None:
        """The model has begun."""
        told = self._tracking_of(prediction)
        told.trace.started()
        self._metrics.started(prediction.request.kind, prediction.waited)
        if prediction.request.durable and not prediction.request.recoverable:
            self._records.save(to_record(prediction))
        self._announce(prediction, "start")

    def requeue(self, prediction: Prediction) -> None:
        """A crash has cut it short, and it waits again."""
        self._records.save(to_record(prediction))

    def logged(self, prediction: Prediction) -> None:
        """The model printed: a webhook, but not more often than the interval allows."""
        request, told = prediction.request, self._tracking_of(prediction)
        if request.webhook is None or "logs" not in request.events or told.late_logs is not None:
            return
        if told.throttle.is_due(time.monotonic()):
            self._announce(prediction, "logs")
        else:
            told.late_logs = asyncio.get_running_loop().call_later(
                self._log_interval, self._announce_late, prediction, told
            )

    def refused(self, reason: str) -> None:
        """A request was not accepted, for a reason in one word."""
        self._metrics.rejected(reason)

    def crashed(self) -> None:
        """A worker has died."""
        self._metrics.crashed()

    def set_up(self, self_test: bytes | None, *, is_again: bool) -> None:
        """A worker is ready; `self_test` is its report, as JSON."""
        if is_again:
            self._metrics.restarted()
        if self_test is not None:
            report = msgspec.json.decode(self_test)
            self._metrics.self_test(report.get("passed") is True)

    def on_output(self, prediction: Prediction) -> None:
        """The model put out an item."""
        self._announce(prediction, "output")

    def recorded(self, prediction: Prediction, name: str, value: Any) -> None:  # noqa: ANN401
        """The model recorded a metric."""
        self._metrics.metric(name, value)
        self._tracking_of(prediction).trace.step(name, value)

    def finished(self, prediction: Prediction) -> None:
        """It has ended: its final record, and the webhook that is owed, in one transaction."""
        request = prediction.request
        told = self._tracking.pop((request.kind, request.id))
        if told.late_logs is not None:
            told.late_logs.cancel()
        told.trace.ended(prediction.status, prediction.error)
        run = {"run": prediction.metrics["predict_time"]} if prediction.started_at else {}
        self._metrics.finished(request.kind, prediction.status, run | {"total": prediction.age})
        is_plain = prediction.status == "succeeded" and not request.durable
        if not is_plain or logging.root.isEnabledFor(logging.DEBUG):
            # a line costs more than all else here, so what a client has waited for goes without
            log.info(
                "prediction ended",
                prediction_id=request.id,
                kind=request.kind,
                status=prediction.status,
                seconds=round(prediction.age, 3),
            )
        record, deliveries = to_record(prediction), []
        if request.webhook is not None and "completed" in request.events:
            deliveries = [completed_delivery(prediction, request.webhook, told.trace.headers())]
        if deliveries or request.durable or request.has_client_id:
            saved = self._records.save_at_once(record, deliveries)  # so a PUT finds it from now on
            prediction.written = self._spawn(self._write_end(saved, record, deliveries))
        else:
            self._records.save(record)

    async def fail_orphan(self, record: Record, error: str) -> None:
        """A record whose server died ends as failed, with the webhook that it owes."""
        ended = msgspec.structs.replace(
            record, status="failed", error=error, completed_at=now(), payload=None
        )
        wants = record.webhook is not None and "completed" in (record.webhook_events or ())
        deliveries = [orphan_delivery(ended)] if wants else []
        await self._records.save_durably(ended, deliveries)
        for delivery in deliveries:
            self._webhooks.complete(delivery)

    async def flush(self) -> None:
        """Wait until every webhook that is owed has been handed over."""
        while self._writing:
            await asyncio.wait(self._writing)

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return task

    async def _write_end(
        self, saved: "asyncio.Future[None]", record: Record, deliveries: list[Delivery]
    ) -> None:
        try:
            await saved
        except TakenOverError as error:
            log.warning("end is left to another server", prediction_id=record.id, error=str(error))
            return
        except StorageError as error:
            log.warning("final record is late", prediction_id=record.id, error=str(error))
            self._metrics.record_error()
            self._records.save(record, deliveries)
        for delivery in deliveries:
            self._webhooks.complete(delivery)

    def _tracking_of(self, prediction: Prediction) -> _Tracking:
        return self._tracking[prediction.request.kind, prediction.id]

    def _announce_late(self, prediction: Prediction, told: _Tracking) -> None:
        told.late_logs = None
        if not prediction.is_final:
            self._announce(prediction, "logs")

    def _announce(self, prediction: Prediction, event: str) -> None:
        request = prediction.request
        if request.webhook is None or event not in request.events:
            return
        told = self._tracking_of(prediction)
        told.throttle.note(time.monotonic())
        body = encode(prediction.account())
        self._webhooks.announce(
            Announcement(
                request.kind, request.id, event, request.webhook, body, told.trace.headers()
            )
        )
