"""How often `logs` are told."""


class LogThrottle:
    """Whether enough time has passed for another `logs` webhook of a prediction.

    `start` and `output` are not held back, but count: what they carry holds the logs too.

    Args:
        interval: seconds.
    """

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._last: float | None = None

    def is_due(self, now: float) -> bool:
        """Whether `logs` may be sent at this time, in seconds of a monotonic clock."""
        return self._last is None or now - self._last >= self._interval

    def note(self, now: float) -> None:
        """A webhook of any event is sent at this time."""
        self._last = now
