"""The clock for deleting by age: setting the host's clock forward deletes nothing early.

Its time is that of the host at the start of the process plus the seconds passed since, or the
host's time if that is earlier. A late deletion happens after the next start.
"""

import time
from datetime import UTC, datetime


def _passed() -> float:
    """Return seconds that no setting of a clock changes, including those of a suspended host."""
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
