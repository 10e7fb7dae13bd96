"""Whether a head's forwards may be shared, and by how many rows, after earlier failures.

Pauses are counted in forwards, so a pause lasts as long in a quiet process as in a busy one. A
failure pauses sharing for `FIRST_PAUSE` forwards, and the next failure for twice as many; after an
out-of-memory error the rows are halved instead. This module knows no model and no query.
"""

from dataclasses import dataclass

FIRST_PAUSE, LONGEST_PAUSE = 64, 65_536  # forwards that run alone before rows share one again
GROWS_AFTER = 256  # shared forwards without a failure, after which the number of rows doubles


@dataclass
class _Head:
    """The history of one head's forwards.

    Attributes:
        never: whether the head's forwards can never be shared.
        left: the number of forwards that have yet to run alone.
        pause: the number of forwards that the next failure makes run alone.
        rows: the limit of rows in a shared forward; None: the head has no limit of its own.
        good: the number of shared forwards since the last failure.
    """

    never: bool = False
    left: int = 0
    pause: int = FIRST_PAUSE
    rows: int | None = None
    good: int = 0


class Sharing:
    """The heads whose shared forwards have failed."""

    def __init__(self) -> None:
        self._heads: dict[str, _Head] = {}

    def may_share(self, head: str) -> bool:
        """Return whether a shared forward may be tried now."""
        found = self._heads.get(head)
        return found is None or not (found.never or found.left)

    def most_rows(self, head: str, otherwise: int) -> int:
        """Return the maximum number of rows in one shared forward."""
        found = self._heads.get(head)
        return otherwise if found is None or found.rows is None else min(found.rows, otherwise)

    def never(self, head: str) -> None:
        """Share no forward of that head in this process."""
        self._of(head).never = True

    def failed(self, head: str) -> int:
        """Pause for twice as long as after the last failure; return the number of forwards."""
        found = self._of(head)
        found.good = 0
        found.left = found.pause
        found.pause = min(2 * found.pause, LONGEST_PAUSE)
        return found.left

    def ran_out_of_memory(self, head: str, rows: int) -> int:
        """Halve the rows of that head's shared forwards, down to two; return the number."""
        if rows <= 2:  # if two rows fail together, rows run alone for a while
            self.failed(head)
        found = self._of(head)
        found.good = 0
        found.rows = max(2, rows // 2)
        return found.rows

    def ran_alone(self, head: str) -> None:
        """Count a forward that was not shared."""
        found = self._heads.get(head)
        if found is not None and found.left:
            found.left -= 1

    def went_well(self, head: str) -> None:
        """Count a shared forward; enough of them cancel earlier failures."""
        found = self._heads.get(head)
        if found is None:
            return
        found.good += 1
        if found.rows is not None and found.good % GROWS_AFTER == 0:
            found.rows *= 2
        if found.good >= found.pause:
            found.pause = FIRST_PAUSE

    def _of(self, head: str) -> _Head:
        return self._heads.setdefault(head, _Head())
