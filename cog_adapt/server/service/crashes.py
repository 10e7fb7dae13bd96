"""How often a worker has died, and how long to wait before it is tried again."""

_PAUSE, _LONGEST_PAUSE = 0.1, 30.0
_REST, _LONGEST_REST = 10.0, 300.0


class CrashCounter:
    """Counts the crashes of one worker.

    Args:
        max_in_a_row: after so many it is defunct, and rests longer.

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
        self.note(cause)
        self._in_a_row += 1

    def note(self, cause: str) -> None:
        """Count a crash that is no fault of the worker's."""
        self.count += 1
        self.last = cause

    def forgive(self) -> None:
        """Reset the count of crashes in a row, because the worker works."""
        self._in_a_row = 0

    @property
    def is_too_many(self) -> bool:
        """Whether the worker is defunct."""
        return self._in_a_row >= self._max_in_a_row

    @property
    def pause(self) -> float:
        """Seconds before the next start: 0.1, 0.4, 1.6 … 30; of a defunct one 10, 20, 40 … 300."""
        if self.is_too_many:
            return min(_LONGEST_REST, _REST * 2.0 ** (self._in_a_row - self._max_in_a_row))
        return min(_LONGEST_PAUSE, _PAUSE * 4.0 ** max(0, self._in_a_row - 1))
