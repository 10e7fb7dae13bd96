"""Room for one more request: in the queue, in its bytes, and on the disk."""

from cog_adapt.server.errors import BudgetSpent, DiskFull, NotReady, TooLarge
from cog_adapt.server.records.space import RecordSpace
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction, PredictionSpec
from cog_adapt.server.service.slots import Slots
from cog_adapt.server.shares.budget import MemoryBudgets


class RoomForRequests:
    """What the predictions in flight take of the queue and of the budgets.

    Args:
        slots: have the queue.
        space: on the disk.
        observer: counts what is refused.
        budgets: bytes of memory.
    """

    def __init__(
        self, slots: Slots, space: RecordSpace, observer: Observer, budgets: MemoryBudgets
    ) -> None:
        self._slots = slots
        self._space = space
        self._observer = observer
        self._budgets = budgets

    def take(self, request: PredictionSpec, in_flight: int, *, is_recovered: bool) -> None:
        """Take room for a request; an earlier server's request is exempt from all limits.

        Raises:
            NotReady: the worker has been given up.
            AtCapacity: all slots are taken, and the settings allow no queue.
            QueueFull: the queue is full.
            TooLarge: the request's input alone has more bytes than an owner may have waiting.
            BudgetSpent: too many bytes of the owner, or of all owners, are waiting.
            DiskFull: the disk has no room for the request's record.
        """
        if is_recovered:
            self._budgets.queue.add(request.owner, request.size)
            return
        if self._slots.given_up is not None:
            raise NotReady(self._slots.given_up)
        excess = self._slots.excess(in_flight, request.owner)
        waiting = self._slots.waiting
        if not waiting.has_room(excess):
            self._observer.rejected("queue full" if waiting.most else "busy")
            raise waiting.refusal(excess)
        try:
            self._space.refuse_if_full(request.size, request.owner)
            self._budgets.queue.take(request.owner, request.size)
        except (DiskFull, TooLarge, BudgetSpent) as error:
            self._observer.rejected("disk full" if isinstance(error, DiskFull) else "queue bytes")
            raise

    def free(self, prediction: Prediction) -> None:
        """Free the room of a prediction that has ended, or was not accepted."""
        request = prediction.request
        self._budgets.queue.free(request.owner, request.size)
        self._budgets.answers.free(request.owner, prediction.answer_bytes)
