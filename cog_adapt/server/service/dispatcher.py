"""One model process with its slots, and the queue in front of them.

Everything here runs on the event loop, so that no state changes between a look and a step.
A slot is free before its answer goes out.
"""

import asyncio
from functools import partial

import structlog

from cog_adapt.server.api.body import Refused
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
from cog_adapt.server.records import RecordsError, TakenOverError
from cog_adapt.server.service.event_cache import Recent
from cog_adapt.server.service.pending import ANSWERS, Questions
from cog_adapt.server.service.prediction import Order, Prediction, now
from cog_adapt.server.service.queue import Queue
from cog_adapt.server.service.recorder import Journal
from cog_adapt.server.service.supervisor import ModelProcess
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import Plan

_RECENT_BYTES = 2**26
_OF_A_RUN = (Log, Output, Metric, Finished)
log = structlog.get_logger()


class Lane:
    """Where predictions, or trainings, wait and run.

    Args:
        plan: what the model process loads.
        journal: told of every change.
        settings: limits.
    """

    def __init__(self, plan: Plan, journal: Journal, settings: Settings) -> None:
        self.kind = plan.kind
        self._journal, self._settings = journal, settings
        self.process = ModelProcess(
            plan,
            self,
            setup_timeout=settings.cog_setup_timeout,
            max_crashes=settings.max_crashes,
        )
        self.slots = plan.concurrency or 1
        self._slots_are_given = plan.concurrency is not None
        self.predictions: dict[str, Prediction] = {}
        self.running: dict[str, Prediction] = {}
        self.waiting = Queue(0 if settings.strict_cog else settings.max_queue)
        self._beginning: dict[str, Prediction] = {}
        self.recent = Recent(0 if settings.strict_cog else _RECENT_BYTES)
        self.questions = Questions(self.process.ask)
        self.description: Described | None = None
        self.ready: Ready | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the model process, once; again where its setup has failed."""
        if self.process.may_start:
            self.process.start()

    @property
    def free_slots(self) -> int:
        """How many more could run now."""
        return max(0, self.slots - len(self.running) - len(self._beginning))

    async def submit(self, order: Order, *, is_recovered: bool = False) -> Prediction:
        """Accept a prediction: it runs, or waits for a slot.

        Args:
            order: what to run.
            is_recovered: it was accepted by a server before this one, so it is not refused.

        Raises:
            Refused: 409 its id is in use (here or at another server) or all slots are, 429 the
                queue is full, 503 it cannot be kept or never run.
        """
        if order.id in self.predictions:
            raise Refused(409, f"id {order.id!r} is in use by a prediction that has not ended.")
        if not is_recovered:
            self._refuse_if_full()
        prediction = Prediction(order, self._settings.cog_stream_history_capacity)
        self.predictions[order.id] = prediction
        try:
            await self._journal.accept(prediction, is_recovered=is_recovered)
        except BaseException as error:
            del self.predictions[order.id]
            if isinstance(error, TakenOverError):
                raise Refused(409, f"id {order.id!r} is in use at another server.") from error
            if isinstance(error, RecordsError):
                raise Refused(503, f"the prediction cannot be recorded: {error}") from error
            raise
        self._watch_deadline(prediction)
        self._enqueue(prediction)
        return prediction

    def _watch_deadline(self, prediction: Prediction) -> None:
        if prediction.order.seconds is None:
            return
        left = prediction.order.seconds - (now() - prediction.created_at).total_seconds()
        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0.0, left), self.cancel, prediction.id)
        prediction.done.add_done_callback(lambda _: timer.cancel())

    def _refuse_if_full(self) -> None:
        if self.process.state == "defunct":
            raise Refused(503, f"the model process has given up: {self.process.last_crash}")
        excess = len(self.predictions) - self.slots
        if not self.waiting.has_room(excess):
            self._journal.refused("queue full" if self.waiting.most else "busy")
            raise self.waiting.refusal(excess)

    def _enqueue(self, prediction: Prediction) -> None:
        if prediction.is_cancelled:
            self._end(prediction, Finished(prediction.id, "canceled"))
            return
        self.waiting.append(prediction)
        self._advance()
        if self.waiting and self.waiting[-1] is prediction:
            self.waiting.tell_last()

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
            if prediction.order.outlives:
                self._beginning[prediction.id] = prediction
                self._journal.begin(prediction, partial(self._hand_over, prediction))
            elif not self._hand_over(prediction):
                break
        if moved:
            self.waiting.tell_all()

    def _hand_over(self, prediction: Prediction, *, is_ours: bool = True) -> bool:
        """Give it to the model; who has not begun when that dies waits for the next one."""
        self._beginning.pop(prediction.id, None)
        order = prediction.order
        if not is_ours:
            error = "Another server has taken it over."
            self._end(prediction, Finished(order.id, "failed", error=error))
        elif prediction.is_cancelled:
            self._end(prediction, Finished(order.id, "canceled"))
        elif self._is_closed or not self.process.run(Run(order.id, order.input, order.context)):
            self.waiting.appendleft(prediction)
            self._journal.set_back(prediction)
            self._end_if_defunct()
            return False
        else:
            self.running[order.id] = prediction
            prediction.start()
            self._journal.started(prediction)
        return True

    def _end(self, prediction: Prediction, end: Finished) -> None:
        """Its slot is free, its end is written down, and then whoever waits may answer."""
        self.running.pop(prediction.id, None)
        self.predictions.pop(prediction.id, None)
        prediction.finish(end)
        self._journal.finished(prediction)
        prediction.events.close()
        self.recent.add(prediction)
        if not prediction.done.done():
            prediction.done.set_result(None)
        self._advance()

    def hear(self, report: Report) -> None:
        """Take what the model process says."""
        if isinstance(report, _OF_A_RUN):
            self._hear_of(report)
        elif isinstance(report, ANSWERS):
            self.questions.hear(report)
        elif isinstance(report, Ready):
            is_again, self.ready = self.ready is not None, report
            self._journal.set_up(report.self_test, is_again=is_again)
            self._advance()
        elif isinstance(report, Described):
            self.description = report
            if not self._slots_are_given:
                self.slots = report.concurrency
        elif isinstance(report, SetupFailed):
            self._end_all_waiting(f"Setup failed: {report.error}")

    def _hear_of(self, report: Log | Output | Metric | Finished) -> None:
        prediction = self.running.get(report.id)
        if prediction is None:
            return
        if isinstance(report, Output):
            prediction.add_output(report.chunk)
            self._journal.put_out(prediction)
        elif isinstance(report, Log):
            prediction.add_log(report.source, report.data)
            self._journal.logged(prediction)
        elif isinstance(report, Metric):
            value = prediction.add_metric(report.name, report.value, report.mode)
            self._journal.recorded(prediction, report.name, value)
        else:
            self.process.prove_steady()
            self._end(prediction, report)

    def lose(self, cause: str) -> None:
        """The model process is gone: what ran has failed, unless it may run again."""
        if self.process.state in ("crashed", "defunct"):
            self._journal.crashed()
        self.questions.lose()
        for prediction in reversed(list(self.running.values())):
            if prediction.retries_left and not prediction.is_cancelled:
                del self.running[prediction.id]
                prediction.begin_again()
                self._journal.set_back(prediction)
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
            if not prediction.order.outlives:
                self.waiting.remove(prediction)
                self._end(prediction, Finished(prediction.id, "failed", error=error))

    def _end_if_defunct(self) -> None:
        if self.process.state == "defunct":
            self._end_all_waiting(f"the model process has given up: {self.process.last_crash}")

    def _end_all_waiting(self, error: str) -> None:
        while self.waiting:
            prediction = self.waiting.popleft()
            self._end(prediction, Finished(prediction.id, "failed", error=error))
