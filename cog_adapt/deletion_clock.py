"""The time by which what is old is deleted: a clock that is set forward deletes nothing early.

Ages go by the clock of the host as it was when the process began, and by the time that has passed
since, unless the host's clock is behind that. What is deleted late is deleted after the next start.
"""

import time
from datetime import UTC, datetime


def _passed() -> float:
    """Return seconds that no clock's setting changes, those of a suspended host too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


BEGAN = time.time() - _passed()


def deletion_time() -> float:
    """Return the time as seconds since 1970."""
    return min(time.time(), BEGAN + _passed())


def deletion_now() -> datetime:
    """Return the time in UTC."""
    return datetime.fromtimestamp(deletion_time(), UTC)
