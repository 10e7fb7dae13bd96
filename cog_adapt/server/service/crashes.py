"""Counts the crashes of a worker, and decides when to give the worker up."""

_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


class CrashCounter:
    """Counts the crashes of one worker.

    Args:
        max_in_a_row: crashes without a success in between, after which the worker is given up.

    Attributes:
        count: crashes since the server started.
        last: how the worker died last; None if it has never died.
    """

    def __init__(self, max_in_a_row: int) -> None:
        self._max_in_a_row = max_in_a_row
        self._in_a_row = 0
        self.count = 0
        self.last: str | None = None

    def add(self, cause: str) -> None:
        """Count a crash."""
        self.count += 1
        self._in_a_row += 1
        self.last = cause

    def forgive(self) -> None:
        """Reset the count of crashes in a row, because the worker works."""
        self._in_a_row = 0

    @property
    def is_too_many(self) -> bool:
        """Whether the worker must be given up."""
        return self._in_a_row >= self._max_in_a_row

    @property
    def pause(self) -> float:
        """Seconds to wait before the next start: 0.1, 0.4, 1.6 … 30."""
        return min(_LONGEST_PAUSE, _PAUSE * 4.0 ** max(0, self._in_a_row - 1))
