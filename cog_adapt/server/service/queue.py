"""The bounded queue in front of a dispatcher's slots."""

from collections import deque

from cog_adapt.server.errors import AtCapacity, QueueFull
from cog_adapt.server.service.encoding import encode
from cog_adapt.server.service.prediction import Prediction

_AT_CAPACITY = "At capacity - all prediction slots busy"
_MOST_POSITIONS = 100
_FEWEST_SECONDS_TO_WAIT = 1


class Queue(deque[Prediction]):
    """The predictions that wait for a slot; the first hundred are told their places.

    Args:
        most: how many may wait.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def has_room(self, excess: int) -> bool:
        """Whether one more may come, with so many more predictions than slots; negative: fewer."""
        return excess < self.most

    def refusal(self, excess: int) -> AtCapacity | QueueFull:
        """Return the error to raise where there is no room."""
        if not self.most:
            return AtCapacity(_AT_CAPACITY)
        return QueueFull(
            f"{excess} predictions wait; at most {self.most} may (MAX_QUEUE). Try later.",
            retry_after=_FEWEST_SECONDS_TO_WAIT,
        )

    def place(self, prediction: Prediction) -> int | None:
        """Its place, from 1; None where it does not wait."""
        try:
            return self.index(prediction) + 1
        except ValueError:
            return None

    def publish_last_position(self) -> None:
        """Tell the one that came last its place."""
        _publish(self[-1], len(self))

    def publish_positions(self) -> None:
        """Tell each its place, where that is among the first hundred."""
        for place, prediction in enumerate(self, 1):
            if place > _MOST_POSITIONS:
                break
            _publish(prediction, place)


def _publish(prediction: Prediction, place: int) -> None:
    prediction.events.append("queued", encode({"position": place}))
