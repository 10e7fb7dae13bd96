"""What ended lately, for readers of events who come back after the end."""

from collections import OrderedDict

from server.prediction import Prediction

_OWN_BYTES = 4096


class Recent:
    """Ended predictions with their events, which a record no longer tells one by one.

    Args:
        most_bytes: of all of them; the oldest go first.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        self._ended: OrderedDict[str, tuple[Prediction, int]] = OrderedDict()

    def add(self, prediction: Prediction) -> None:
        """Keep one; nobody can have followed one whose id was told with its end."""
        order = prediction.order
        self._forget(prediction.id)
        if not (order.keeps or order.is_named or prediction.events.was_followed):
            return
        size = prediction.events.size + _OWN_BYTES
        self._ended[prediction.id] = prediction, size
        self._bytes += size
        while self._bytes > self._most_bytes:
            self._forget(next(iter(self._ended)))

    def get(self, name: str) -> Prediction | None:
        """The one of this id."""
        found = self._ended.get(name)
        return found[0] if found else None

    def _forget(self, name: str) -> None:
        _, size = self._ended.pop(name, (None, 0))
        self._bytes -= size
