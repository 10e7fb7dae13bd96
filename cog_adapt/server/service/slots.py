"""The slots of workers, and the bounded queue of predictions that wait for one."""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice

from cog_adapt.owner_bytes import turns_of_one
from cog_adapt.server.errors import AtCapacity, QueueFull
from cog_adapt.server.protocol import Finished
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.placement import Placement
from cog_adapt.server.service.prediction import Prediction, encode
from cog_adapt.server.service.recorder import PredictionRecorder
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.service.worker_pool import WorkerPool

_AT_CAPACITY = "At capacity - all prediction slots busy"
_MOST_POSITIONS = 100
_FEWEST_SECONDS_TO_WAIT = 1


class Queue(deque[Prediction]):
    """The predictions that wait for a slot; the first hundred get events with their positions.

    Args:
        most: the most that may wait.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most
        self._starts = 0
        self._latest_start: dict[str, int] = {}

    def has_room(self, excess: int) -> bool:
        """Return whether one more may enter; `excess` is `Slots.excess`."""
        return excess < self.most

    def refusal(self, excess: int) -> AtCapacity | QueueFull:
        """Return the error to raise if there is no room."""
        if not self.most:
            return AtCapacity(_AT_CAPACITY)
        return QueueFull(
            f"{excess} predictions wait; at most {self.most} may (MAX_QUEUE). Try later.",
            retry_after=_FEWEST_SECONDS_TO_WAIT,
        )

    def choose(
        self, on_workers: Mapping[str, int], most: int, *, besides_crashed: bool = False
    ) -> Prediction | None:
        """Return the next to start: the first of the owner with the fewest running predictions.

        Of owners with equal numbers, the one whose latest start is longest ago.

        Args:
            on_workers: predictions there, by owner.
            most: for one owner with a name; the result is None if all waiting owners are at this
                limit.
            besides_crashed: whether predictions that must run alone are passed over.
        """

        def turn(each: Prediction) -> tuple[int, int]:
            owner = each.request.owner
            return on_workers.get(owner, 0), self._latest_start.get(owner, 0)

        starting = (each for each in self if not each.request.owner or turn(each)[0] < most)
        if besides_crashed:
            starting = (each for each in starting if not each.must_run_alone)
        return min(starting, key=turn, default=None)

    def enter_by_age(self, prediction: Prediction) -> None:
        """Let one that another server had wait before what was accepted later."""
        younger = (
            place for place, each in enumerate(self) if each.created_at > prediction.created_at
        )
        self.insert(next(younger, len(self)), prediction)

    def take(self, prediction: Prediction) -> None:
        """Remove a prediction that starts."""
        self.remove(prediction)
        self._starts += 1
        self._latest_start[prediction.request.owner] = self._starts
        if not self:
            self._latest_start.clear()

    def place(self, prediction: Prediction) -> int | None:
        """Return the position of a prediction by arrival, from 1; None if it does not wait."""
        try:
            return self.index(prediction) + 1
        except ValueError:
            return None

    def publish_last_position(self) -> None:
        """Publish the position of the prediction that came last."""
        _publish(self[-1], len(self))

    def publish_positions(self, first: int = 1) -> None:
        """Publish the positions of the first hundred, from one of them on."""
        for place, prediction in enumerate(islice(self, first - 1, _MOST_POSITIONS), first):
            _publish(prediction, place)


class Slots(WorkerPool):
    """The workers of a dispatcher, and the queue before them.

    Args:
        most_waiting: predictions that may wait.
        recorder: records every change.
        observer: counts and traces every change.
        end: ends a prediction.
        drop: forgets a prediction that another server has taken.

    Attributes:
        neighbours: the slots of other kinds whose predictions run on the same workers.
        placement: chooses the worker of a prediction.
        waiting: predictions without a slot.
    """

    def __init__(
        self,
        most_waiting: int,
        recorder: PredictionRecorder,
        observer: Observer,
        end: Callable[[Prediction, Finished], None],
        drop: Callable[[Prediction], None],
    ) -> None:
        self._drop = drop
        self._recorder = recorder
        self._observer = observer
        self._end = end
        super().__init__()
        self.neighbours: list[Slots] = []
        self.placement = Placement()
        self.waiting = Queue(most_waiting)
        self._alone: Prediction | None = None
        self._is_closed = False

    def excess(self, in_flight: int, owner: str) -> int:
        """Return the number of waiting predictions, less the slots that one more may have now."""
        free = self.count - sum(worker.load for worker in self.workers)
        running = sum(self.count_own(worker) for worker in self.all_workers)
        if owner:
            free = min(free, self._most_of_one - self._count_by_owner()[owner])
        return in_flight - running - max(0, free)

    @property
    def _most_of_one(self) -> int:
        """The most slots of one owner: if there are many, a quarter is left for other owners."""
        return turns_of_one(self.count) if self.waiting.most else self.count

    def share(self, main: "Slots") -> None:
        """Use the workers of other slots, if these have the code of this kind too."""
        self.hosts = main.own
        self.neighbours, main.neighbours = [main], [self]
        self.is_shared = main.is_shared = True

    def advance_all(self) -> None:
        """Start predictions, also those of other kinds that wait for the same slots."""
        self.advance()
        for each in self.neighbours:
            each.advance()

    def advance(self) -> None:
        """Start predictions until all slots are taken or none waits.

        A prediction that must run alone, once it is next, starts on the first worker without any.
        So that it cannot starve, one worker takes nothing else meanwhile (`held`); the others take
        what comes after it. If there is one worker, the whole queue waits.
        """
        moved = False
        while self.waiting and self._has_slot and (chosen := self._choose()) is not None:
            prediction, worker = chosen
            moved = True
            self.waiting.take(prediction)
            if not self._hand_over(prediction, worker):
                break
        if moved:
            self.waiting.publish_positions()

    def _choose(self) -> tuple[Prediction, Worker] | None:
        """Choose what starts next, and where; None if nothing can."""
        on_workers, alone = self._count_by_owner(), self._next_alone
        if alone is not None:
            worker = self.placement.choose(alone, self.offered)
            if worker is not None:
                return alone, worker
            on_workers[alone.request.owner] += 1
        is_waiting = alone is not None
        prediction = self.waiting.choose(on_workers, self._most_of_one, besides_crashed=is_waiting)
        if prediction is None:
            return None
        free = self.offered
        if is_waiting or self.neighbours:
            held = [each.held for each in (self, *self.neighbours)]
            free = [each for each in free if each not in held]
        worker = self.placement.choose(prediction, free)
        if worker is not None:
            return prediction, worker
        if is_waiting or not prediction.must_run_alone or len(self.workers) == 1:
            return None
        self._alone = prediction
        return self._choose()

    @property
    def _next_alone(self) -> Prediction | None:
        """The prediction that waits for a worker of its own; None without one."""
        if self._alone is not None and self._alone not in self.waiting:
            self._alone = None  # it has started, or was cancelled
        return self._alone

    @property
    def held(self) -> Worker | None:
        """The worker that takes nothing, for a prediction that must run alone; None without one."""
        return None if self._next_alone is None else self.emptying

    @property
    def _has_slot(self) -> bool:
        return not self._is_closed and any(each.takes_work for each in self.offered)

    def _count_by_owner(self) -> Counter[str]:
        """Count the predictions that run or begin on the workers, by owner."""
        on_workers: Counter[str] = Counter()
        for worker in self.workers:
            on_workers.update(each.request.owner for each in worker.running.values())
            on_workers.update(each.request.owner for each in worker.beginning.values())
        return on_workers

    def _hand_over(self, prediction: Prediction, worker: Worker) -> bool:
        """Start a prediction, now or once its start is on disk; return whether it is started."""
        if not prediction.request.recoverable:
            return self._start(prediction, worker)
        worker.beginning[prediction.run_id] = prediction
        self._recorder.begin(prediction, partial(self._start, prediction, worker))
        return True

    def _start(self, prediction: Prediction, worker: Worker, *, is_ours: bool = True) -> bool:
        """Start a prediction; if it cannot be sent to the worker, requeue it at the head."""
        worker.beginning.pop(prediction.run_id, None)
        if not is_ours:
            self._drop(prediction)
        elif prediction.is_cancelled:
            self._end(prediction, Finished(prediction.id, "canceled"))
        elif self._is_closed or not worker.run(prediction):
            self.requeue(prediction)
            self.fail_waiting_if_given_up()
            return False
        else:
            if len(self.workers) > 1:
                self.placement.on_start(prediction, worker)
            prediction.start()
            self._observer.started(prediction)
            self._recorder.started(prediction)
        return True

    def requeue(self, prediction: Prediction) -> None:
        """Put a prediction back at the head of the queue."""
        self.waiting.appendleft(prediction)
        self._recorder.requeued(prediction)

    def fail_waiting(self, error: str) -> None:
        """Fail every waiting prediction."""
        while self.waiting:
            self._fail(self.waiting.popleft(), error)

    def fail_waiting_if_given_up(self) -> None:
        """Fail predictions with a waiting client if no worker will start again soon.

        Recorded predictions wait for the next worker.
        """
        if self.given_up is not None:
            self._fail_waiting_clients(self.given_up)

    def close(self, error: str) -> None:
        """Fail running predictions. Waiting ones stay in the records to run later, or fail too."""
        self._is_closed = True
        for worker in self.all_workers:
            for prediction in self.running_on(worker):
                worker.cancel(prediction.run_id)
                self._fail(prediction, error)
        self._fail_waiting_clients(error)

    def _fail_waiting_clients(self, error: str) -> None:
        for prediction in [each for each in self.waiting if not each.request.recoverable]:
            self.waiting.remove(prediction)
            self._fail(prediction, error)

    def _fail(self, prediction: Prediction, error: str) -> None:
        self._end(prediction, Finished(prediction.id, "failed", error=error))


def _publish(prediction: Prediction, place: int) -> None:
    prediction.events.append("queued", encode({"position": place}))
