"""Accepts, cancels and ends waiting and running predictions, or trainings.

Runs on the event loop only, so state cannot change between a check and the action that relies on
it. A slot is free before its answer is sent.
"""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from cog_adapt.server.budget import MemoryBudgets
from cog_adapt.server.errors import BudgetSpent, DiskFull, IdInUse, NotReady, TooLarge
from cog_adapt.server.protocol import Finished, Kind
from cog_adapt.server.service.event_cache import EventCache
from cog_adapt.server.service.gauges import read_gauges
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction, PredictionSpec, now
from cog_adapt.server.service.recorder import PredictionRecorder
from cog_adapt.server.service.run_events import RunEvents
from cog_adapt.server.service.slots import Queue, Slots
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig

_CACHE_BYTES = 2**26
# of workers that have never served, or no longer: those first that may serve soon
_ORDER = ("ready", "crashed", "starting", "idle", "defunct", "setup failed", "stopped")
log = structlog.get_logger()


class Dispatcher:
    """Serves predictions of one kind.

    Args:
        configs: the code that its workers load, and the place of each; at least one.
        recorder: records every change.
        observer: counts and traces every change.
        settings: limits.
        budgets: bytes of memory.

    Attributes:
        predictions: those in flight, by kind, id and owner.
        event_cache: events of the predictions that ended last.
    """

    def __init__(
        self,
        configs: Sequence[WorkerConfig],
        recorder: PredictionRecorder,
        observer: Observer,
        settings: Settings,
        budgets: MemoryBudgets,
    ) -> None:
        self.kind = configs[0].kind
        self._recorder = recorder
        self._observer = observer
        self._settings = settings
        self._budgets = budgets
        most_waiting = 0 if settings.strict_cog else settings.max_queue
        self.slots = Slots(
            most_waiting=most_waiting,
            recorder=recorder,
            observer=observer,
            end=self.end,
            drop=self.drop_moved,
        )
        self.slots.kind = self.kind
        self._events = RunEvents(
            slots=self.slots,
            recorder=recorder,
            observer=observer,
            end=self.end,
            answers=budgets.answers,
        )
        self.slots.own += [Worker(config, self._events, settings) for config in configs]
        self.predictions: dict[tuple[str, str, str], Prediction] = {}
        self._main: Dispatcher | None = None
        self._saying: asyncio.Task[None] | None = None
        most_cached = 0 if settings.strict_cog else int(min(_CACHE_BYTES, budgets.events.most))
        self.event_cache = EventCache(most_cached, budgets.events)

    @property
    def waiting(self) -> Queue:
        """The predictions without a slot."""
        return self.slots.waiting

    @property
    def workers(self) -> Sequence[Worker]:
        """The workers of this kind, in the order of their configurations."""
        return self.slots.own

    @property
    def lead(self) -> Worker:
        """The worker whose state represents all: the first of those that serve best."""
        return min(self.workers, key=lambda each: (not each.is_usable, _ORDER.index(each.state)))

    def join(self, main: "Dispatcher") -> None:
        """Use the slots of another dispatcher's workers if these have the code of this kind too."""
        self._main = main
        self.slots.hosts = main.slots.own
        self.slots.neighbours, main.slots.neighbours = [main.slots], [self.slots]
        self.slots.is_shared = main.slots.is_shared = True
        for worker in main.workers:
            worker.guests[self.kind] = self._events

    def start(self) -> None:
        """Start the workers, once; again if the setup of every worker has failed."""
        if self.slots.is_hosted:
            return
        again = self.slots.is_set_up_in_vain
        if self._main is not None and self.lead.state == "idle":
            saying = _say_memory(self.kind, self._main.lead)
            self._saying = asyncio.get_running_loop().create_task(saying)
        for worker in self.workers:
            if again or worker.state == "idle":
                worker.start()

    async def submit(self, request: PredictionSpec, *, is_recovered: bool = False) -> Prediction:
        """Accept a prediction: it runs, or waits for a slot.

        Args:
            request: the request to run.
            is_recovered: whether an earlier server accepted the request, which is then exempt from
                the limits below.

        Raises:
            IdInUse: a prediction with this id has not ended, here or at another server.
            AtCapacity: all slots are taken, and the settings allow no queue.
            QueueFull: the queue is full.
            TooLarge: the request's input alone has more bytes than an owner may have waiting.
            BudgetSpent: too many bytes of the owner, or of all owners, are waiting.
            DiskFull: the disk has no room for the request's record.
            NotReady: the worker has been given up.
            NotRecorded: the database cannot store the prediction.
        """
        if request.key in self.predictions:
            raise IdInUse(f"id {request.id!r} is in use by a prediction that has not ended.")
        if is_recovered:
            self._budgets.queue.add(request.owner, request.size)
        else:
            self._refuse_if_full(request)
        history = self._settings.cog_stream_history_capacity
        prediction = Prediction(request, history, self._budgets.events)
        self.predictions[request.key] = prediction
        try:
            await self._recorder.accept(prediction, is_recovered=is_recovered)
            self._observer.accepted(prediction)
        except BaseException:
            del self.predictions[request.key]
            self._budgets.queue.free(request.owner, request.size)
            raise
        cancel_at_deadline(prediction, self.cancel)
        self._enqueue(prediction)
        return prediction

    def _refuse_if_full(self, request: PredictionSpec) -> None:
        if self.slots.given_up is not None:
            raise NotReady(self.slots.given_up)
        excess = self.slots.excess(len(self.predictions), request.owner)
        if not self.waiting.has_room(excess):
            self._observer.rejected("queue full" if self.waiting.most else "busy")
            raise self.waiting.refusal(excess)
        try:
            self._recorder.space.refuse_if_full(request.size, request.owner)
            self._budgets.queue.take(request.owner, request.size)
        except (DiskFull, TooLarge, BudgetSpent) as error:
            self._observer.rejected("disk full" if isinstance(error, DiskFull) else "queue bytes")
            raise

    def _enqueue(self, prediction: Prediction) -> None:
        if prediction.is_cancelled:
            self.end(prediction, Finished(prediction.id, "canceled"))
            return
        self.waiting.append(prediction)
        self.slots.advance()
        if self.waiting and self.waiting[-1] is prediction:
            self.waiting.publish_last_position()

    def find(self, prediction_id: str, owner: str = "") -> Prediction | None:
        """Return the prediction in flight under an owner's id."""
        return self.predictions.get((self.kind, prediction_id, owner))

    def cancel(self, prediction_id: str, owner: str = "") -> bool:
        """Cancel an owner's prediction. Return whether one was queued or running."""
        prediction = self.find(prediction_id, owner)
        if prediction is None:
            return False
        if prediction in self.waiting:
            self.waiting.remove(prediction)
            self.end(prediction, Finished(prediction_id, "canceled"))
        elif not prediction.is_cancelled:  # a worker has the prediction, or its record is written
            prediction.is_cancelled = True
            for worker in self.slots.all_workers:
                worker.cancel(prediction.run_id)
            insist_later(prediction, self.slots.all_workers, self._settings.cancel_grace_seconds)
        return True

    def drop_moved(self, prediction: Prediction) -> None:
        """Forget a prediction that another server has taken, without an end; its readers go on."""
        if prediction in self.waiting:
            self.waiting.remove(prediction)
        self._free(prediction)
        prediction.has_moved = True
        self._recorder.moved(prediction)
        self._observer.moved(prediction)
        prediction.events.release()
        prediction.close()
        self.slots.advance_all()

    def _free(self, prediction: Prediction) -> None:
        for worker in self.slots.all_workers:
            worker.running.pop(prediction.run_id, None)
        if self.predictions.pop(prediction.key, None) is not None:
            owner = prediction.request.owner
            self._budgets.queue.free(owner, prediction.request.size)
            self._budgets.answers.free(owner, prediction.answer_bytes)

    def end(self, prediction: Prediction, end: Finished) -> None:
        """Free the slot, record the end, and then release the waiting request."""
        self._free(prediction)
        prediction.finish(end)
        self._recorder.finished(prediction)
        self._observer.finished(prediction)
        self.event_cache.add(prediction)
        prediction.close()
        self.slots.advance_all()


async def _say_memory(kind: Kind, model: Worker) -> None:
    """Log how much memory another process with the model takes: as much as the model's does now."""
    values = {
        name: int(size) for name, size in (await read_gauges(model)).items() if "memory" in name
    }
    log.info("a process of its own loads the model again, in as much memory", kind=kind, **values)


def insist_later(prediction: Prediction, workers: Sequence[Worker], seconds: float) -> None:
    """End the worker of a cancelled prediction, unless the prediction ends in time."""

    def insist() -> None:
        for worker in workers:
            if prediction.run_id in worker.running:
                log.error("cancel had no effect", prediction_id=prediction.id, seconds=seconds)
                worker.replace(
                    "was killed, because a cancelled prediction in it did not end within "
                    f"{seconds:g} s (CANCEL_GRACE_SECONDS)"
                )

    timer = asyncio.get_running_loop().call_later(seconds, insist)
    prediction.done.add_done_callback(lambda _: timer.cancel())


def cancel_at_deadline(prediction: Prediction, cancel: Callable[[str, str], object]) -> None:
    """Cancel a prediction when its time is over, unless it has ended before.

    The time, `Cancel-After`, counts from its acceptance by the first server.
    """
    if prediction.request.timeout is None:
        return
    before = (now() - prediction.created_at).total_seconds()  # negative if the clock was set back
    left = prediction.request.timeout - max(0.0, before)
    loop = asyncio.get_running_loop()
    timer = loop.call_later(max(0.0, left), cancel, prediction.id, prediction.request.owner)
    prediction.done.add_done_callback(lambda _: timer.cancel())
