"""A pause of long work: another process may do the work by now, so there is time to hear of it."""

from collections.abc import Callable
from typing import Final

MOST_SECONDS: Final = 10.0
NEVER: Final = float("-inf")


class Pause:
    """Is on while long work may not advance, each time for 10 s at most.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._may_advance: Callable[[], bool] = lambda: True
        self._began = self._asked = NEVER

    def unless(self, may_advance: Callable[[], bool]) -> None:
        """Ask this from now on whether long work may advance."""
        self._may_advance = may_advance

    def is_on(self) -> bool:
        """Return whether long work must not advance now; any thread may ask."""
        seconds = self._seconds()
        return seconds is not None and seconds < MOST_SECONDS

    def is_over(self) -> bool:
        """Return whether long work goes on though it may not advance: it has paused long enough."""
        seconds = self._seconds()
        return seconds is not None and seconds >= MOST_SECONDS

    def _seconds(self) -> float | None:
        """Return how long this pause has lasted; None without one."""
        now, asked_before = self._clock(), self._asked
        self._asked = NEVER if self._may_advance() else now
        if self._asked == NEVER:
            return None
        if now - asked_before >= MOST_SECONDS:  # a new one: nobody asked at the end of the last
            self._began = now
        return now - self._began
