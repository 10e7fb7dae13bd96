"""Ends a worker with the front process, whatever the cause and whatever the worker does.

The kernel kills the worker itself. A small process beside the worker, the guard, ends the worker's
child processes. The guard is a fork from before anything was loaded, which a hung or stopped worker
cannot block. The guard also passes on what the worker writes to its descriptors.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import tempfile
from typing import NoReturn, TextIO

from cog_adapt.server.files.temp_files import remove_temp_files
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.processes import end_session
from cog_adapt.server.worker.raw_output import RawOutput, RawReader

_SET_PARENT_DEATH_SIGNAL = 1
_MILLISECONDS = 1000
# after the worker's end, because a program that it left behind may write without end
_MOST_READS = 1000
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def end_with(front: int) -> None:
    """Have the kernel kill this process when the front process, its parent, ends."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != front:  # the front process ended before the call above
        os._exit(1)


def start_guard(front: int, config: WorkerConfig) -> TextIO | None:
    """Fork a guard: a process that cleans up after this worker once the front process has ended.

    The guard ends all processes of the worker's session, and removes the worker's temporary files.

    Args:
        front: the id of the front process, whose end the guard awaits.
        config: the configuration of this worker process.

    Returns:
        the server's own log, in place of stderr, which the guard reads; None: without a guard.
    """
    if not hasattr(os, "pidfd_open"):
        return None
    worker, output = os.getpid(), RawOutput(config.log_format)
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        output.take_descriptors()
        return output.log
    if not os.fork():
        _guard(front=front, worker=worker, prefix=config.prefix, output=output.reader())
    os._exit(0)  # so that the guard is no child of the worker, and no run() can wait for it


def _guard(front: int, worker: int, prefix: str, output: RawReader) -> NoReturn:
    try:
        # before setsid(), because other processes find the guard by its session
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        os.setsid()
        # caches its answer before the folder changes, which may be the temporary one
        tempfile.gettempdir()
        os.chdir("/")
        _close_all_but(output.descriptors)
        if _is_left_by(worker, front, output):
            end_session(worker)
            remove_temp_files(prefix)
        output.close()
    finally:
        os._exit(0)


def _close_all_but(kept: set[int]) -> None:
    for each in {int(name) for name in os.listdir("/proc/self/fd")} - kept:
        with contextlib.suppress(OSError):  # one descriptor is that of the listing, already closed
            os.close(each)


def _is_left_by(worker: int, front: int, output: RawReader) -> bool:
    """Pass on output until either process ends; return whether it was the front process.

    The kernel kills the worker a moment before the end of the front process can be seen.
    """
    try:
        front_end = os.pidfd_open(front)
    except ProcessLookupError:
        return True
    with contextlib.suppress(ProcessLookupError):
        ends = {front_end, os.pidfd_open(worker)}
        while not (ready := _ready(ends | output.pipes)) & ends:
            output.read(ready)
    _pass_on_rest(output)
    return bool(_ready({front_end}, _MILLISECONDS))


def _pass_on_rest(output: RawReader) -> None:
    for _ in range(_MOST_READS):
        ready = _ready(output.pipes, 0)
        if not ready:
            return
        output.read(ready)


def _ready(descriptors: set[int], milliseconds: int | None = None) -> set[int]:
    """Wait until some of them are readable, and return those."""
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return {descriptor for descriptor, _ in poll.poll(milliseconds)}
