"""The processes that a model has started, found in /proc, and their end."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

_GRACE_SECONDS = 2.0
_POLL = 0.02


def descendants() -> set[int]:
    """Return the ids of all processes below this one, including zombies."""
    if not _has_children():
        return set()
    return _below(os.getpid())


def end_descendants() -> None:
    """Kill all processes below this one."""
    _signal(descendants(), signal.SIGKILL)


def end_session(leader: int) -> None:
    """Kill a worker, all of its process group and session, and all processes below it.

    A program in its own session whose parent has ended is not found.
    """
    below = _below(leader)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    _signal({leader} | below | _session(leader), signal.SIGKILL)


def end_newer_than(before: set[int]) -> None:
    """Terminate the descendants that are not in `before`, and kill the remaining after 2 s."""
    newer = descendants() - before
    if newer:
        threading.Thread(target=_end, args=(newer,), name="end children", daemon=True).start()


def _end(processes: set[int]) -> None:
    _signal(processes, signal.SIGTERM)
    deadline = time.monotonic() + _GRACE_SECONDS
    while time.monotonic() < deadline:
        time.sleep(_POLL)
        if not processes & descendants():
            return
    _signal(processes & descendants(), signal.SIGKILL)


def _signal(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _has_children() -> bool:
    """Return whether this process has children; the usual answer, no, takes a microsecond."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _below(process: int) -> set[int]:
    found: set[int] = set()
    unseen = [process]
    while unseen:
        new = _children(unseen.pop()) - found
        found |= new
        unseen += new
    return found


def _session(leader: int) -> set[int]:
    try:
        processes = [int(each) for each in os.listdir("/proc") if each.isdecimal()]
    except OSError:  # without /proc, the process group is ended instead
        return set()
    return {each for each in processes if _session_of(each) == leader}


def _session_of(process: int) -> int | None:
    try:
        return os.getsid(process)
    except OSError:  # the process has ended meanwhile
        return None


def _children(process: int) -> set[int]:
    found: set[int] = set()
    for thread in _threads(process):
        with contextlib.suppress(OSError):
            found.update(map(int, (thread / "children").read_text().split()))
    return found


def _threads(process: int) -> list[Path]:
    try:
        return list(Path(f"/proc/{process}/task").iterdir())
    except OSError:  # the process has ended meanwhile
        return []
