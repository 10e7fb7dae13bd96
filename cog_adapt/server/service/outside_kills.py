"""Tells a kill from outside from one for which the process's own runs may be the reason."""

import signal
from pathlib import Path

_COUNTERS = Path("/proc/vmstat")


def count_memory_kills() -> int | None:
    """Return the kernel's kills for lack of memory since the host's start; None if unknown."""
    try:
        lines = _COUNTERS.read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), None)


def is_from_outside(exit_code: int | None, memory_kills_before: int | None) -> bool:
    """Return whether another program killed a process.

    SIGKILL has two senders, a program and the kernel, and the kernel counts its own.

    Args:
        exit_code: of the process; negative for a signal.
        memory_kills_before: `count_memory_kills` at the start of the process.
    """
    is_known = memory_kills_before is not None
    return exit_code == -signal.SIGKILL and is_known and count_memory_kills() == memory_kills_before
