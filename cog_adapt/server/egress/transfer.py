"""The end of a download: its deadline, its pace, or an abort."""

import contextlib
import math
import socket
import ssl
import threading
import time
from typing import Any

import httpcore2

from cog_adapt.server.limits import Pace


class Transfer:
    """The time of one download, counted from `begin`; any thread may abort it.

    Args:
        pause_seconds: the most for a connection, or for the next bytes.
        total_seconds: from the beginning to the end.
    """

    def __init__(self, pause_seconds: float, total_seconds: float = math.inf) -> None:
        self._pause_seconds = pause_seconds
        self._total_seconds = total_seconds
        self._pace = Pace(pause_seconds)
        self._end = math.inf
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.is_aborted = False

    def begin(self) -> None:
        """Count the seconds from now on."""
        self._end = time.monotonic() + self._total_seconds

    def seconds_left(self, timeout: float | None) -> float:
        """Return the seconds for the next step.

        Raises:
            httpcore2.ReadTimeout: the time is over, or the transfer was aborted.
        """
        left = self._end - time.monotonic()
        if self.is_aborted:
            raise httpcore2.ReadTimeout("it was cancelled")
        if left <= 0:
            raise httpcore2.ReadTimeout(
                f"it took more than {self._total_seconds:g} s (DOWNLOAD_SECONDS)"
            )
        return min(left, self._pause_seconds if timeout is None else timeout)

    def read(self, stream: httpcore2.NetworkStream, most: int, timeout: float | None) -> bytes:
        """Read the next bytes.

        Raises:
            httpcore2.ReadTimeout: they come too slowly, or the time is over.
        """
        began = time.monotonic()
        try:
            data = stream.read(most, min(self.seconds_left(timeout), self._pace.left))
        except httpcore2.ReadTimeout:
            self.seconds_left(timeout)  # if the whole time limit is over, that is the reason
            raise
        self._pace.note(time.monotonic() - began, len(data))
        if self._pace.left <= 0:
            raise httpcore2.ReadTimeout("its bytes drip")
        return data

    def follow(self, stream: httpcore2.NetworkStream) -> "TimedStream":
        """Return a connection that ends with this transfer."""
        own = stream.get_extra_info("socket").dup()  # TLS takes over the socket itself
        with self._lock:
            self._sockets.append(own)
        if self.is_aborted:
            self.abort()
        return TimedStream(stream, self)

    def abort(self) -> None:
        """End the transfer; a thread that waits for its bytes stops waiting."""
        self.is_aborted = True
        with self._lock:
            for each in self._sockets:
                _shut(each)

    def close(self) -> None:
        """Forget its connections."""
        with self._lock:
            for each in self._sockets:
                each.close()
            self._sockets.clear()


def _shut(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the other side has closed the connection already
        connected.shutdown(socket.SHUT_RDWR)


class TimedStream(httpcore2.NetworkStream):
    """A connection of a transfer.

    Args:
        stream: the connection.
        transfer: that uses it.
    """

    def __init__(self, stream: httpcore2.NetworkStream, transfer: Transfer) -> None:
        self._stream = stream
        self._transfer = transfer

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        """Read some bytes."""
        return self._transfer.read(self._stream, max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Write all of them."""
        self._stream.write(buffer, self._transfer.seconds_left(timeout))

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        """Continue with TLS."""
        left = self._transfer.seconds_left(timeout)
        return TimedStream(
            self._stream.start_tls(ssl_context, server_hostname, left), self._transfer
        )

    def get_extra_info(self, info: str) -> Any:  # noqa: ANN401 - httpcore2's
        """Return information about the connection."""
        return self._stream.get_extra_info(info)
