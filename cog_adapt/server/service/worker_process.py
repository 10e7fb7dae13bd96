"""One worker process: its start, its socket, and its exit.

Its death is detected by the kernel's handle of it, and by the end of the socket: a fork of it may
live on, and hold every pipe open.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
from collections import deque
from collections.abc import Callable
from multiprocessing.context import SpawnProcess

import msgspec
import structlog

from cog_adapt.server.files.temp_files import remove_temp_files
from cog_adapt.server.protocol import Beat, Frames, Output, Ready, Report, Request, Stop, to_frame
from cog_adapt.server.service.heartbeat import HeartbeatWatch
from cog_adapt.server.service.outside_kills import count_memory_kills, is_from_outside
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.entry import enter
from cog_adapt.server.worker.processes import end_session

_READ = 2**15  # a thousand small reports take 15 ms of the event loop
_LARGE = 2**20  # each copy of 14 MB takes 9 ms of the event loop
_SECONDS_TO_EXIT = 1.0  # between the end of the socket and the end of the process
_STOP_SECONDS = 2.0
_KILL_SECONDS = 1.0
log = structlog.get_logger()


class WorkerProcess:
    """A worker process from its start to its exit, and the socket to it.

    The socket never blocks the event loop. A large output gets a turn of the loop for itself:
    reading, adding and recording it each make a copy, and other requests are answered in between.

    Args:
        config: the code that the worker loads; its temporary files' names begin with
            `config.prefix`.
        on_report: called with each report.
        on_exit: called once, with the cause of the exit, after its last report.

    Attributes:
        exited: set once the process has ended.
        was_killed_from_outside: whether another program has killed it.
    """

    def __init__(
        self,
        config: WorkerConfig,
        on_report: Callable[[Report], None],
        on_exit: Callable[[str], None],
    ) -> None:
        self._config = config
        self._on_report = on_report
        self._on_exit = on_exit
        self.exited = asyncio.Event()
        self.was_killed_from_outside = False
        self._was_killed = False
        self._cause: str | None = None
        ours, theirs = socket.socketpair()
        self._socket = ours
        self._process = multiprocessing.get_context("spawn").Process(
            target=enter, args=(theirs, config), name=f"model-{config.kind}"
        )
        self._memory_kills = count_memory_kills()
        self._process.start()
        theirs.close()
        self._frames = Frames.of_reports()
        self._reports = deque[Report]()
        self._unsent = bytearray()
        self._reads = 0  # counts the reads that returned data
        self._heartbeat = HeartbeatWatch(config.hang_seconds, lambda: self._reads, self.kill)
        self._loop = asyncio.get_running_loop()
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._read)
        self._end = _handle(self._process)
        self._loop.add_reader(self._end, self._notice_exit)

    @property
    def is_over(self) -> bool:
        """Whether the process has ended, or is about to."""
        return self._was_killed or self.exited.is_set()

    def send(self, request: Request) -> bool:
        """Send a request; bytes that the socket does not accept now are queued.

        Returns:
            False if the process is gone and cannot have read the request.
        """
        if self.is_over:
            return False
        frame = to_frame(request)
        if self._unsent:
            self._unsent += frame
            return True
        try:
            with contextlib.suppress(BlockingIOError):
                del frame[: self._socket.send(frame)]
        except OSError:
            return False
        if frame:
            self._unsent = frame  # a copy of 22 MB would take the event loop up to 20 ms
            self._loop.add_writer(self._socket, self._write)
        return True

    def kill(self, cause: str | None = None) -> None:
        """Kill the process and all that it has started.

        Args:
            cause: replaces the cause of the exit.
        """
        if not self.exited.is_set() and self._process.pid is not None:
            self._cause = self._cause or cause
            self._was_killed = True
            end_session(self._process.pid)

    async def stop(self) -> None:
        """Let the process end its runs, and kill it after two seconds."""
        self.send(Stop())
        for seconds in (_STOP_SECONDS, _KILL_SECONDS):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.exited.wait(), seconds)
                return
            self.kill()
        log.error("model process cannot be ended", kind=self._config.kind)

    def _write(self) -> None:
        try:
            del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()
        if not self._unsent:
            self._loop.remove_writer(self._socket)

    def _read(self) -> bool:
        """Read once from the socket; return whether there may be more."""
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._leave("closed its connection, and was killed")
            return False
        self._reads += 1
        try:
            self._reports += self._frames.feed(data)
        except msgspec.DecodeError:
            log.exception("model process sent an unreadable message, and is ended")
            self._leave("sent a message that is no report, and was killed")
            return False
        self._report_small()
        return True

    def _report_small(self) -> None:
        while self._reports and not _is_large(self._reports[0]):
            self._report_next()
        if self._reports:
            self._loop.call_soon(self._report_large)

    def _report_large(self) -> None:
        if self._reports:
            self._report_next()
            self._loop.call_soon(self._report_small)

    def _report_next(self) -> None:
        report = self._reports.popleft()
        try:
            self._take(report)
        except Exception:  # an error of one prediction must not lose another's end
            log.exception("a report of the model process was lost", report=type(report).__name__)

    def _take(self, report: Report) -> None:
        if isinstance(report, Beat):
            self._heartbeat.on_beat(report)
            return
        if isinstance(report, Ready):
            self._heartbeat.end_setup()
        self._on_report(report)

    def _leave(self, cause: str) -> None:
        """End a process whose socket is broken; one that is ending gets time for it."""
        _close(self._socket, self._loop)
        self._loop.call_later(_SECONDS_TO_EXIT, self.kill, cause)

    def _notice_exit(self) -> None:
        self._loop.remove_reader(self._end)
        os.close(self._end)
        self._heartbeat.close()
        if self._process.pid is not None:
            end_session(self._process.pid)  # before the wait, which frees the process id
        self._process.join()
        is_outside = is_from_outside(self._process.exitcode, self._memory_kills)
        self.was_killed_from_outside = is_outside and not self._was_killed
        remove_temp_files(self._config.prefix)
        self.exited.set()
        while self._read():  # reads what the process sent before its exit
            pass
        while self._reports:
            self._report_next()
        _close(self._socket, self._loop)
        self._on_exit(self._cause or _cause(self._process.exitcode))


def _close(connection: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
    """Close a connection, once."""
    if connection.fileno() < 0:
        return
    loop.remove_reader(connection)
    loop.remove_writer(connection)
    connection.close()


def _is_large(report: Report) -> bool:
    return isinstance(report, Output) and len(report.chunk) > _LARGE


def _handle(process: SpawnProcess) -> int:
    """Return a descriptor that becomes readable once the process has ended.

    Without the kernel's own, a fork that holds the other end of a pipe hides the exit.
    """
    with contextlib.suppress(AttributeError, OSError):
        return os.pidfd_open(process.pid or 0)
    return os.dup(process.sentinel)


def _cause(code: int | None) -> str:
    """Return the cause of a process's exit, in words."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"exited with code {code}"
