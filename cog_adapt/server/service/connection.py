"""The front's end of the socket to a worker, on the event loop."""

import asyncio
import socket
from collections.abc import Callable

import msgspec
import structlog

from cog_adapt.server.protocol import Frames, Report

_READ = 2**18
log = structlog.get_logger()


class Connection:
    """A socket to a worker: reads when there is something, never blocks on a write.

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
