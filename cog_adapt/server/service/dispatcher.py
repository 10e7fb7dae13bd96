"""Accepts, cancels and ends waiting and running predictions, or trainings.

Runs on the event loop only, so state cannot change between a check and the action that relies on
it. A slot is free before its answer is sent.
"""

import asyncio
from collections.abc import Sequence
from itertools import count

import structlog

from cog_adapt.server.errors import IdInUse
from cog_adapt.server.protocol import Finished, Kind
from cog_adapt.server.service.early_ends import cancel_at_deadline, insist_later
from cog_adapt.server.service.event_cache import EventCache
from cog_adapt.server.service.gauges import read_gauges
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction, PredictionSpec
from cog_adapt.server.service.recorder import PredictionRecorder
from cog_adapt.server.service.room_for_requests import RoomForRequests
from cog_adapt.server.service.run_events import RunEvents
from cog_adapt.server.service.slots import Queue, Slots
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.settings import Settings
from cog_adapt.server.shares.budget import MemoryBudgets
from cog_adapt.server.worker.config import WorkerConfig

_CACHE_BYTES = 2**26
_takeovers = count(1)
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
        self._event_budget = budgets.events
        self.slots = Slots(
            most_waiting=0 if settings.strict_cog else settings.max_queue,
            recorder=recorder,
            observer=observer,
            end=self.end,
            drop=self.drop_moved,
        )
        self.slots.kind = self.kind
        self._room = RoomForRequests(self.slots, recorder.space, observer, budgets)
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
        return self.slots.lead

    def join(self, main: "Dispatcher") -> None:
        """Use the slots of another dispatcher's workers if these have the code of this kind too."""
        self._main = main
        self.slots.share(main.slots)
        for worker in main.workers:
            worker.guests[self.kind] = self._events

    def start(self) -> None:
        """Start the workers, once; again if the setup of every worker has failed."""
        if self.slots.is_hosted:
            return
        if self._main is not None and self.lead.state == "idle":
            saying = _say_memory(self.kind, self._main.lead)
            self._saying = asyncio.get_running_loop().create_task(saying)
        self.slots.start()

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
        self._room.take(request, len(self.predictions), is_recovered=is_recovered)
        history = self._settings.cog_stream_history_capacity
        taken_over = next(_takeovers) if is_recovered else 0
        prediction = Prediction(request, history, self._event_budget, taken_over)
        self.predictions[request.key] = prediction
        try:
            await self._recorder.accept(prediction, is_recovered=is_recovered)
            self._observer.accepted(prediction)
        except BaseException:
            del self.predictions[request.key]
            self._room.free(prediction)
            raise
        cancel_at_deadline(prediction, self.cancel)
        self._enqueue(prediction, is_recovered=is_recovered)
        return prediction

    def _enqueue(self, prediction: Prediction, *, is_recovered: bool) -> None:
        if prediction.is_cancelled:
            self.end(prediction, Finished(prediction.id, "canceled"))
            return
        enter = self.waiting.enter_by_age if is_recovered else self.waiting.append
        enter(prediction)
        self.slots.advance()
        if self.waiting and self.waiting[-1] is prediction:
            self.waiting.publish_last_position()
        elif self.waiting and (place := self.waiting.place(prediction)):
            self.waiting.publish_positions(place)

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
        """Forget a prediction that another server has taken, without an end; its readers go on.

        One that runs here, because this server was taken for dead, is canceled.
        """
        if prediction in self.waiting:
            self.waiting.remove(prediction)
        for worker in self.slots.all_workers:
            worker.cancel(prediction.run_id)
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
            self._room.free(prediction)

    def end(self, prediction: Prediction, end: Finished) -> None:
        """Free the slot, record the end, and then release the waiting request."""
        self._free(prediction)
        prediction.finish(end)
        self._recorder.finished(prediction)
        self._observer.finished(prediction)
        self.event_cache.add(prediction)
        if prediction.written is not None:
            prediction.written.add_done_callback(lambda _: self._forget_moved(prediction))
        prediction.close()
        self.slots.advance_all()

    def _forget_moved(self, prediction: Prediction) -> None:
        """Forget the events of an end that was not written, since another server's was first."""
        if prediction.has_moved:
            self.event_cache.forget(prediction.id, prediction.request.owner)


async def _say_memory(kind: Kind, model: Worker) -> None:
    """Log how much memory another process with the model takes: as much as the model's does now."""
    values = {
        name: int(size) for name, size in (await read_gauges(model)).items() if "memory" in name
    }
    log.info("a process of its own loads the model again, in as much memory", kind=kind, **values)
