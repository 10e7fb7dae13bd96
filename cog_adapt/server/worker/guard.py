"""Ends a worker with the front process, however that ended and whatever the worker is doing.

The kernel kills the worker itself. What it has started is ended by a small process beside it, a
fork from before anything was loaded, which a worker that hangs or is stopped cannot hold up.
"""

import ctypes
import os
import select
import signal
import sys
import tempfile
from typing import NoReturn

from cog_adapt.server.temp_files import remove_temp_files
from cog_adapt.server.worker.processes import end_session

_SET_PARENT_DEATH_SIGNAL = 1
_MILLISECONDS = 1000
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_with(front: int) -> None:
    """Have this process killed when the front process ends, which must be its parent."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != front:  # it ended before the kernel knew
        os._exit(1)


def start_guard(front: int, prefix: str) -> None:
    """Fork the process that ends this one's session, and its files, after the front process.

    Args:
        front: whose end to wait for.
        prefix: of this process's temporary files.
    """
    if not hasattr(os, "pidfd_open"):
        return
    worker = os.getpid()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    elif os.fork():
        os._exit(0)  # so that the guard is nobody's child, and no run() can wait for it
    else:
        _guard(front, worker, prefix)


def _guard(front: int, worker: int, prefix: str) -> NoReturn:
    try:
        os.setsid()
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        tempfile.gettempdir()  # before the folder is left, which may be the one
        os.chdir("/")
        os.closerange(0, os.sysconf("SC_OPEN_MAX"))
        if _is_left_by(worker, front):
            end_session(worker)
            remove_temp_files(prefix)
    finally:
        os._exit(0)


def _is_left_by(worker: int, front: int) -> bool:
    """Wait for the end of either, and return whether it was the front process's.

    The kernel kills the worker a moment before the end of the front process can be seen.
    """
    ends = select.poll()
    try:
        front_end = os.pidfd_open(front)
    except ProcessLookupError:
        return True
    ends.register(front_end, select.POLLIN)
    try:
        worker_end = os.pidfd_open(worker)
    except ProcessLookupError:
        return bool(ends.poll(_MILLISECONDS))
    ends.register(worker_end, select.POLLIN)
    ended = {descriptor for descriptor, _ in ends.poll()}
    if front_end in ended:
        return True
    ends.unregister(worker_end)
    return bool(ends.poll(_MILLISECONDS))
