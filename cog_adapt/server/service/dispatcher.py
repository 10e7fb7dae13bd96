"""The predictions, or trainings, that wait and run: accepted, cancelled, ended.

Runs on the event loop only, so state cannot change between a check and the action that relies on
it. A slot is free before its answer goes out.
"""

import asyncio
from collections.abc import Callable

from cog_adapt.server.errors import IdInUse, NotReady
from cog_adapt.server.protocol import Finished
from cog_adapt.server.service.event_cache import EventCache
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction, PredictionRequest, now
from cog_adapt.server.service.recorder import Recorder
from cog_adapt.server.service.run_events import RunEvents
from cog_adapt.server.service.slots import Queue, Slots
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig

_CACHE_BYTES = 2**26


class Dispatcher:
    """Serves predictions of one kind.

    Args:
        config: what its workers load.
        recorder: writes down every change.
        observer: counts and traces every change.
        settings: limits.

    Attributes:
        workers: today one.
        predictions: that have not ended, by id.
        event_cache: events of those that ended last.
    """

    def __init__(
        self, config: WorkerConfig, recorder: Recorder, observer: Observer, settings: Settings
    ) -> None:
        self.kind = config.kind
        self._recorder, self._observer, self._settings = recorder, observer, settings
        most_waiting = 0 if settings.strict_cog else settings.max_queue
        self.slots = Slots(most_waiting, recorder, observer, self.end)
        events = RunEvents(self.slots, recorder, observer, self.end)
        self.workers = self.slots.workers = [Worker(config, events, settings)]
        self.predictions: dict[str, Prediction] = {}
        self.event_cache = EventCache(0 if settings.strict_cog else _CACHE_BYTES)

    @property
    def waiting(self) -> Queue:
        """The predictions without a slot."""
        return self.slots.waiting

    @property
    def lead(self) -> Worker:
        """The worker whose setup, schema and health stand for all."""
        return self.workers[0]

    def start(self) -> None:
        """Start the workers, once; again where their setup has failed."""
        for worker in self.workers:
            worker.start()

    async def submit(self, request: PredictionRequest, *, is_recovered: bool = False) -> Prediction:
        """Accept a prediction: it runs, or waits for a slot.

        Args:
            request: what to run.
            is_recovered: it was accepted by a server before this one, so it is not refused.

        Raises:
            IdInUse: by a prediction that has not ended, here or at another server.
            AtCapacity: all slots are taken, and nothing may wait.
            QueueFull: as many wait as may.
            NotReady: the worker is given up.
            NotRecorded: it cannot be kept.
        """
        if request.id in self.predictions:
            raise IdInUse(f"id {request.id!r} is in use by a prediction that has not ended.")
        if not is_recovered:
            self._refuse_if_full()
        prediction = Prediction(request, self._settings.cog_stream_history_capacity)
        self.predictions[request.id] = prediction
        try:
            await self._recorder.accept(prediction, is_recovered=is_recovered)
            self._observer.accepted(prediction)
        except BaseException:
            del self.predictions[request.id]
            raise
        cancel_at_deadline(prediction, self.cancel)
        self._enqueue(prediction)
        return prediction

    def _refuse_if_full(self) -> None:
        if self.slots.given_up is not None:
            raise NotReady(self.slots.given_up)
        excess = len(self.predictions) - self.slots.count
        if not self.waiting.has_room(excess):
            self._observer.rejected("queue full" if self.waiting.most else "busy")
            raise self.waiting.refusal(excess)

    def _enqueue(self, prediction: Prediction) -> None:
        if prediction.is_cancelled:
            self.end(prediction, Finished(prediction.id, "canceled"))
            return
        self.waiting.append(prediction)
        self.slots.advance()
        if self.waiting and self.waiting[-1] is prediction:
            self.waiting.publish_last_position()

    def cancel(self, prediction_id: str) -> bool:
        """Cancel a prediction. Return whether one was queued or running."""
        prediction = self.predictions.get(prediction_id)
        if prediction is None:
            return False
        if prediction in self.waiting:
            self.waiting.remove(prediction)
            self.end(prediction, Finished(prediction_id, "canceled"))
        elif not prediction.is_cancelled:  # where no worker has it, it is being written down
            prediction.is_cancelled = True
            for worker in self.workers:
                worker.cancel(prediction_id)
            self._insist_later(prediction)
        return True

    def _insist_later(self, prediction: Prediction) -> None:
        """End the worker of a cancelled prediction, unless that ends in time."""
        seconds = self._settings.cancel_grace_seconds

        def insist() -> None:
            for worker in self.workers:
                worker.end_cancelled(prediction.id, seconds)

        timer = asyncio.get_running_loop().call_later(seconds, insist)
        prediction.done.add_done_callback(lambda _: timer.cancel())

    def end(self, prediction: Prediction, end: Finished) -> None:
        """Free the slot, write the end down, and then let whoever waits for it answer."""
        for worker in self.workers:
            worker.running.pop(prediction.id, None)
        self.predictions.pop(prediction.id, None)
        prediction.finish(end)
        self._recorder.finished(prediction)
        self._observer.finished(prediction)
        self.event_cache.add(prediction)
        prediction.close()
        self.slots.advance()


def cancel_at_deadline(prediction: Prediction, cancel: Callable[[str], object]) -> None:
    """Cancel a prediction when its time is over, unless it has ended before.

    The time, `Cancel-After`, counts from its acceptance by whatever server.
    """
    if prediction.request.timeout is None:
        return
    left = prediction.request.timeout - (now() - prediction.created_at).total_seconds()
    loop = asyncio.get_running_loop()
    timer = loop.call_later(max(0.0, left), cancel, prediction.id)
    prediction.done.add_done_callback(lambda _: timer.cancel())
