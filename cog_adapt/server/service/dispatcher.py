"""One worker with its slots, and the queue in front of them.

Everything here runs on the event loop, so that no state changes between a look and a step.
A slot is free before its answer goes out.
"""

import asyncio
from functools import partial

import structlog

from cog_adapt.server.api.body import Refused
from cog_adapt.server.errors import StorageError, TakenOverError
from cog_adapt.server.protocol import (
    Described,
    Finished,
    Log,
    Metric,
    Output,
    Ready,
    Report,
    Run,
    SetupFailed,
)
from cog_adapt.server.service.event_cache import EventCache
from cog_adapt.server.service.pending import ANSWERS, PendingRequests
from cog_adapt.server.service.prediction import Prediction, PredictionRequest, now
from cog_adapt.server.service.queue import Queue
from cog_adapt.server.service.recorder import Recorder
from cog_adapt.server.service.supervisor import WorkerSupervisor
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig

_RECENT_BYTES = 2**26
_OF_A_RUN = (Log, Output, Metric, Finished)
log = structlog.get_logger()


class Dispatcher:
    """Where predictions, or trainings, wait and run.

    Args:
        config: what the worker loads.
        recorder: told of every change.
        settings: limits.
    """

    def __init__(self, config: WorkerConfig, recorder: Recorder, settings: Settings) -> None:
        self.kind = config.kind
        self._recorder, self._settings = recorder, settings
        self.process = WorkerSupervisor(
            config,
            self,
            setup_timeout=settings.cog_setup_timeout,
            max_crashes=settings.max_crashes,
        )
        self.slots = config.concurrency or 1
        self._slots_are_given = config.concurrency is not None
        self.predictions: dict[str, Prediction] = {}
        self.running: dict[str, Prediction] = {}
        self.waiting = Queue(0 if settings.strict_cog else settings.max_queue)
        self._beginning: dict[str, Prediction] = {}
        self.event_cache = EventCache(0 if settings.strict_cog else _RECENT_BYTES)
        self.pending = PendingRequests(self.process.ask)
        self.description: Described | None = None
        self.ready: Ready | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the worker, once; again where its setup has failed."""
        if self.process.may_start:
            self.process.start()

    @property
    def free_slots(self) -> int:
        """How many more could run now."""
        return max(0, self.slots - len(self.running) - len(self._beginning))

    async def submit(self, request: PredictionRequest, *, is_recovered: bool = False) -> Prediction:
        """Accept a prediction: it runs, or waits for a slot.

        Args:
            request: what to run.
            is_recovered: it was accepted by a server before this one, so it is not refused.

        Raises:
            Refused: 409 its id is in use (here or at another server) or all slots are, 429 the
                queue is full, 503 it cannot be kept or never run.
        """
        if request.id in self.predictions:
            raise Refused(409, f"id {request.id!r} is in use by a prediction that has not ended.")
        if not is_recovered:
            self._refuse_if_full()
        prediction = Prediction(request, self._settings.cog_stream_history_capacity)
        self.predictions[request.id] = prediction
        try:
            await self._recorder.accept(prediction, is_recovered=is_recovered)
        except BaseException as error:
            del self.predictions[request.id]
            if isinstance(error, TakenOverError):
                raise Refused(409, f"id {request.id!r} is in use at another server.") from error
            if isinstance(error, StorageError):
                raise Refused(503, f"the prediction cannot be recorded: {error}") from error
            raise
        self._watch_deadline(prediction)
        self._enqueue(prediction)
        return prediction

    def _watch_deadline(self, prediction: Prediction) -> None:
        if prediction.request.timeout is None:
            return
        left = prediction.request.timeout - (now() - prediction.created_at).total_seconds()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0.0, left), self.cancel, prediction.id)
        prediction.done.add_done_callback(lambda _: timer.cancel())

    def _refuse_if_full(self) -> None:
        if self.process.state == "defunct":
            raise Refused(503, f"the model process has given up: {self.process.last_crash}")
        excess = len(self.predictions) - self.slots
        if not self.waiting.has_room(excess):
            self._recorder.refused("queue full" if self.waiting.most else "busy")
            raise self.waiting.refusal(excess)

    def _enqueue(self, prediction: Prediction) -> None:
        if prediction.is_cancelled:
            self._end(prediction, Finished(prediction.id, "canceled"))
            return
        self.waiting.append(prediction)
        self._advance()
        if self.waiting and self.waiting[-1] is prediction:
            self.waiting.publish_last_position()

    def cancel(self, name: str) -> bool:
        """End a prediction early; whether there was one."""
        prediction = self.predictions.get(name)
        if prediction is None:
            return False
        if name in self.running:
            if not prediction.is_cancelled:
                prediction.is_cancelled = True
                self.process.cancel(name)
        elif prediction in self.waiting:
            self.waiting.remove(prediction)
            self._end(prediction, Finished(name, "canceled"))
        else:  # it is being written down
            prediction.is_cancelled = True
        return True

    def _advance(self) -> None:
        moved = False
        while self.waiting and self.free_slots and self.process.takes_work and not self._is_closed:
            prediction = self.waiting.popleft()
            moved = True
            if prediction.request.recoverable:
                self._beginning[prediction.id] = prediction
                self._recorder.begin(prediction, partial(self._hand_over, prediction))
            elif not self._hand_over(prediction):
                break
        if moved:
            self.waiting.publish_positions()

    def _hand_over(self, prediction: Prediction, *, is_ours: bool = True) -> bool:
        """Give it to the model; who has not begun when that dies waits for the next one."""
        self._beginning.pop(prediction.id, None)
        request = prediction.request
        if not is_ours:
            error = "Another server has taken it over."
            self._end(prediction, Finished(request.id, "failed", error=error))
        elif prediction.is_cancelled:
            self._end(prediction, Finished(request.id, "canceled"))
        elif self._is_closed or not self.process.run(
            Run(request.id, request.input, request.context)
        ):
            self.waiting.appendleft(prediction)
            self._recorder.requeue(prediction)
            self._end_if_defunct()
            return False
        else:
            self.running[request.id] = prediction
            prediction.start()
            self._recorder.started(prediction)
        return True

    def _end(self, prediction: Prediction, end: Finished) -> None:
        """Its slot is free, its end is written down, and then whoever waits may answer."""
        self.running.pop(prediction.id, None)
        self.predictions.pop(prediction.id, None)
        prediction.finish(end)
        self._recorder.finished(prediction)
        prediction.events.close()
        self.event_cache.add(prediction)
        if not prediction.done.done():
            prediction.done.set_result(None)
        self._advance()

    def on_report(self, report: Report) -> None:
        """Take what the worker says."""
        if isinstance(report, _OF_A_RUN):
            self._on_run_report(report)
        elif isinstance(report, ANSWERS):
            self.pending.resolve(report)
        elif isinstance(report, Ready):
            is_again, self.ready = self.ready is not None, report
            self._recorder.set_up(report.self_test, is_again=is_again)
            self._advance()
        elif isinstance(report, Described):
            self.description = report
            if not self._slots_are_given:
                self.slots = report.concurrency
        elif isinstance(report, SetupFailed):
            self._end_all_waiting(f"Setup failed: {report.error}")

    def _on_run_report(self, report: Log | Output | Metric | Finished) -> None:
        prediction = self.running.get(report.id)
        if prediction is None:
            return
        if isinstance(report, Output):
            prediction.add_output(report.chunk)
            self._recorder.on_output(prediction)
        elif isinstance(report, Log):
            prediction.add_log(report.source, report.data)
            self._recorder.logged(prediction)
        elif isinstance(report, Metric):
            value = prediction.add_metric(report.name, report.value, report.mode)
            self._recorder.recorded(prediction, report.name, value)
        else:
            self.process.reset_crash_count()
            self._end(prediction, report)

    def on_exit(self, cause: str) -> None:
        """The worker is gone: what ran has failed, unless it may run again."""
        if self.process.state in ("crashed", "defunct"):
            self._recorder.crashed()
        self.pending.cancel_all()
        for prediction in reversed(list(self.running.values())):
            if prediction.retries_left and not prediction.is_cancelled:
                del self.running[prediction.id]
                prediction.begin_again()
                self._recorder.requeue(prediction)
                self.waiting.appendleft(prediction)
            elif prediction.is_cancelled:
                self._end(prediction, Finished(prediction.id, "canceled"))
            else:
                error = f"Worker crashed: the model process {cause}"
                self._end(prediction, Finished(prediction.id, "failed", error=error))
        self._end_if_defunct()
        if self.waiting and self.process.may_start:
            self.process.start()  # they came between its failure and its end

    def give_up(self, error: str) -> None:
        """The server ends: what runs has failed; what waits stays in the records, to run later.

        What waits and cannot be run by another server has failed too.
        """
        self._is_closed = True
        for prediction in list(self.running.values()):
            self.process.cancel(prediction.id)
            self._end(prediction, Finished(prediction.id, "failed", error=error))
        for prediction in list(self.waiting):
            if not prediction.request.recoverable:
                self.waiting.remove(prediction)
                self._end(prediction, Finished(prediction.id, "failed", error=error))

    def _end_if_defunct(self) -> None:
        if self.process.state == "defunct":
            self._end_all_waiting(f"the model process has given up: {self.process.last_crash}")

    def _end_all_waiting(self, error: str) -> None:
        while self.waiting:
            prediction = self.waiting.popleft()
            self._end(prediction, Finished(prediction.id, "failed", error=error))
