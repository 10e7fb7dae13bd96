"""One worker process: started, spoken to over a socket, and its exit noticed.

Its death is seen by the kernel's handle of it, and by the end of the socket: a fork of it may live
on, and hold every pipe open.
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

from cog_adapt.server.protocol import Beat, Frames, Output, Ready, Report, Request, to_frame
from cog_adapt.server.service.heartbeat import HeartbeatWatch
from cog_adapt.server.temp_files import remove_temp_files
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.entry import enter
from cog_adapt.server.worker.processes import end_session

_READ = 2**15  # a thousand small reports take 15 ms of the event loop
_LARGE = 2**20  # each copy of 14 MB takes 9 ms of the event loop
_SECONDS_TO_EXIT = 1.0  # between the end of the socket and that of the process
log = structlog.get_logger()


class WorkerProcess:
    """A worker process from its start to its exit.

    Args:
        config: what the worker loads; its temporary files' names begin with `config.prefix`.
        on_report: called with each report.
        on_exit: called once, with how the process ended, after its last report.
    """

    def __init__(
        self,
        config: WorkerConfig,
        on_report: Callable[[Report], None],
        on_exit: Callable[[str], None],
    ) -> None:
        self._config, self._on_report, self._on_exit = config, on_report, on_exit
        self.exited = asyncio.Event()
        self.was_killed = False
        ours, theirs = socket.socketpair()
        self._process = multiprocessing.get_context("spawn").Process(
            target=enter, args=(theirs, config), name=f"model-{config.kind}"
        )
        self._process.start()
        theirs.close()
        self._cause: str | None = None
        self._loop = asyncio.get_running_loop()
        self._connection = connection = Connection(ours, self._take, self._leave)
        self._heartbeat = HeartbeatWatch(config.hang_seconds, lambda: connection.reads, self.kill)
        self._end = _handle(self._process)
        self._loop.add_reader(self._end, self._notice_exit)

    def send(self, request: Request) -> bool:
        """Send a request. Return False if the process is gone and cannot have read the request."""
        return not self.is_over and self._connection.write(to_frame(request))

    @property
    def is_over(self) -> bool:
        """Whether it has ended, or cannot but end."""
        return self.was_killed or self.exited.is_set()

    def kill(self, cause: str | None = None) -> None:
        """End the process at once, with all that it has started.

        Args:
            cause: what to say in place of how it ended.
        """
        if not self.exited.is_set() and self._process.pid is not None:
            self._cause, self.was_killed = self._cause or cause, True
            end_session(self._process.pid)

    def _take(self, report: Report) -> None:
        if isinstance(report, Beat):
            self._heartbeat.on_beat(report)
            return
        if isinstance(report, Ready):
            self._heartbeat.end_setup()
        self._on_report(report)

    def _leave(self, cause: str) -> None:
        """End a process that cannot be spoken to, and give one that ends the time to."""
        self._loop.call_later(_SECONDS_TO_EXIT, self.kill, cause)

    def _notice_exit(self) -> None:
        self._loop.remove_reader(self._end)
        os.close(self._end)
        self._heartbeat.close()
        if self._process.pid is not None:
            end_session(self._process.pid)  # before it is waited for: the number is still its own
        self._process.join()
        remove_temp_files(self._config.prefix)
        self.exited.set()
        self._connection.drain()
        self._on_exit(self._cause or _cause(self._process.exitcode))


class Connection:
    """The socket to a worker, on the event loop: never blocks on a write.

    A large output has a turn of the loop for itself: to read it, to add it and to record it copy it
    each, and others are answered in between.

    Args:
        channel: the socket.
        on_report: gets each report.
        on_end: called with the reason when nothing more is heard: the process has closed the
            socket, or said what is no report.

    Attributes:
        reads: how often something has been heard.
    """

    def __init__(
        self,
        channel: socket.socket,
        on_report: Callable[[Report], None],
        on_end: Callable[[str], None],
    ) -> None:
        self._socket, self._on_report, self._on_end = channel, on_report, on_end
        self.reads = 0
        self._frames = Frames.of_reports()
        self._waiting = bytearray()
        self._reports = deque[Report]()
        self._loop = asyncio.get_running_loop()
        channel.setblocking(False)
        self._loop.add_reader(channel, self._read)

    def write(self, frame: bytes) -> bool:
        """Send a frame; bytes that the socket does not take now wait for their turn.

        Returns:
            False if the process is gone, which is handled elsewhere.
        """
        if not self._waiting:
            try:
                frame = frame[self._socket.send(frame) :]
            except BlockingIOError:
                pass
            except OSError:
                return False
            if not frame:
                return True
            self._loop.add_writer(self._socket, self._write)
        self._waiting += frame
        return True

    def drain(self) -> None:
        """Read what the process sent before its exit, and close."""
        while self._read():
            pass
        while self._reports:
            self._publish(self._reports.popleft())
        self._close()

    def _read(self) -> bool:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            self._close()
            self._on_end("closed its connection, and was killed")
            return False
        self.reads += 1
        try:
            reports = self._frames.feed(data)
        except msgspec.DecodeError:
            log.exception("model process is not understood, and ended")
            self._close()
            self._on_end("said what is no report, and was killed")
            return False
        self._reports += reports
        self._publish_small()
        return True

    def _publish_small(self) -> None:
        while self._reports and not _is_large(self._reports[0]):
            self._publish(self._reports.popleft())
        if self._reports:
            self._loop.call_soon(self._publish_next)

    def _publish_next(self) -> None:
        if self._reports:
            self._publish(self._reports.popleft())
            self._loop.call_soon(self._publish_small)

    def _publish(self, report: Report) -> None:
        try:
            self._on_report(report)
        except Exception:  # a fault with one prediction must not lose another's end
            log.exception("a report of the model process was lost", report=type(report).__name__)

    def _write(self) -> None:
        try:
            del self._waiting[: self._socket.send(self._waiting)]
        except BlockingIOError:
            return
        except OSError:
            self._waiting.clear()
        if not self._waiting:
            self._loop.remove_writer(self._socket)

    def _close(self) -> None:
        if self._socket.fileno() < 0:
            return
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()


def _is_large(report: Report) -> bool:
    return isinstance(report, Output) and len(report.chunk) > _LARGE


def _handle(process: SpawnProcess) -> int:
    """Return a descriptor that can be read from once the process has ended.

    Where there is none of the kernel's, a fork that keeps the other end of a pipe hides the end.
    """
    with contextlib.suppress(AttributeError, OSError):
        return os.pidfd_open(process.pid or 0)
    return os.dup(process.sentinel)


def _cause(code: int | None) -> str:
    """Return how a process ended, in words."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"exited with code {code}"
