"""One worker process: started, spoken to over a socket, and its exit noticed."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import socket
from collections.abc import Callable

import msgspec
import structlog

from cog_adapt.server.protocol import Frames, Report, Request, to_frame
from cog_adapt.server.temp_files import remove_temp_files
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.entry import enter

_READ = 2**15  # a thousand small reports take 15 ms of the event loop
log = structlog.get_logger()


class WorkerProcess:
    """A worker process from its start to its exit.

    Args:
        config: what it loads; the names of its temporary files begin with `config.prefix`.
        on_report: called with each report.
        on_exit: called once, with how it ended, when everything it said has been reported.
    """

    def __init__(
        self,
        config: WorkerConfig,
        on_report: Callable[[Report], None],
        on_exit: Callable[[str], None],
    ) -> None:
        self._config, self._on_exit = config, on_exit
        self.exited = asyncio.Event()
        ours, theirs = socket.socketpair()
        self._process = multiprocessing.get_context("spawn").Process(
            target=enter, args=(theirs, config), name=f"model-{config.kind}"
        )
        self._process.start()
        theirs.close()
        self._connection = Connection(ours, on_report, self.kill)
        asyncio.get_running_loop().add_reader(self._process.sentinel, self._notice_exit)

    def send(self, request: Request) -> bool:
        """Send a request; return False where the process is gone and cannot have heard of it."""
        return not self.exited.is_set() and self._connection.write(to_frame(request))

    def kill(self) -> None:
        """End the process at once."""
        if not self.exited.is_set() and self._process.is_alive():
            self._process.kill()

    def _notice_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        self._process.join()
        _end_group(self._process.pid)
        remove_temp_files(self._config.prefix)
        self.exited.set()
        self._connection.drain()
        self._on_exit(_cause(self._process.exitcode))


class Connection:
    """The socket to a worker, on the event loop: never blocks on a write.

    Args:
        channel: the socket.
        on_report: gets each report.
        on_nonsense: called when the process says what is no report; nothing is heard after that.
    """

    def __init__(
        self,
        channel: socket.socket,
        on_report: Callable[[Report], None],
        on_nonsense: Callable[[], None],
    ) -> None:
        self._socket, self._on_report, self._on_nonsense = channel, on_report, on_nonsense
        self._frames = Frames.of_reports()
        self._waiting = bytearray()
        self._loop = asyncio.get_running_loop()
        channel.setblocking(False)
        self._loop.add_reader(channel, self._read)

    def write(self, frame: bytes) -> bool:
        """Send a frame; what the socket does not take now waits for its turn.

        Returns:
            false where the process is gone, which is noticed elsewhere.
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
        """Read what a process has said before it ended, and close."""
        while self._read():
            pass
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
            return False
        try:
            reports = self._frames.feed(data)
        except msgspec.DecodeError:
            log.exception("model process is not understood, and ended")
            self._close()
            self._on_nonsense()
            return False
        for report in reports:
            self._publish(report)
        return True

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


def _end_group(process: int | None) -> None:
    """End whatever the worker has started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if process is not None:
            os.killpg(process, signal.SIGKILL)


def _cause(code: int | None) -> str:
    """Return how a process ended, in words."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by signal {-code} ({signal.Signals(-code).name})"
    return f"exited with code {code}"
