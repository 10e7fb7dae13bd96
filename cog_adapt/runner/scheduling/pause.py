"""A pause of long work: another process may do the work by now, so there is time to hear of it."""

from collections.abc import Callable
from typing import Final

MOST_SECONDS: Final = 10.0


class Pause:
    """Is on while long work may not advance, each time for 10 s at most.

    Args:
        clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._may_advance: Callable[[], bool] = lambda: True
        self._began: float | None = None

    def unless(self, may_advance: Callable[[], bool]) -> None:
        """Ask this from now on whether long work may advance."""
        self._may_advance = may_advance

    def is_on(self) -> bool:
        """Return whether long work must not advance now."""
        if self._may_advance():
            self._began = None
            return False
        if self._began is None:
            self._began = self._clock()
        return self._clock() - self._began < MOST_SECONDS
