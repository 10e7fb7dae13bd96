"""uvicorn's HTTP protocol with the bounds it lacks, against clients that hold connections.

For `uvicorn.Config(http=bounded(most))`.
"""

import asyncio
import socket
from typing import ClassVar

import msgspec
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cog_adapt.server.middleware.connection_room import ConnectionRoom
from cog_adapt.server.middleware.rate_limit import client_of

_FULL = msgspec.json.encode(
    {
        "error": "The server has as many connections as MAX_CONNECTIONS allows. Try again later.",
        "status": "failed",
    }
)


class BoundedProtocol(HttpToolsProtocol):
    """Closes a connection whose request line and headers come too slowly or are too large.

    Trailers, and other bytes between the chunks of a chunked body, have the same limits. The server
    also closes a connection on which the rest of a body drips in after the answer, a connection
    whose client reads nothing of the answer, and, if there are more connections than `room` allows,
    the connection that has been idle for longest.
    """

    room: ClassVar[ConnectionRoom] = ConnectionRoom()

    header_seconds: ClassVar[float] = 20.0
    untaken_seconds: ClassVar[float] = 60.0
    max_header_bytes: ClassVar[int] = 64 * 1024
    _deadline: asyncio.TimerHandle | None = None
    _in_body = False
    _header_bytes = 0
    _has_large_headers = False
    _progress = 0  # counts heads, parts of bodies and ends: the time between two of them is bounded

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._start_deadline()
        self.room.enter(self, client_of({"client": self.client}))
        sock: socket.socket | None = transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            # the kernel ends a connection whose peer takes nothing; uvicorn never would
            milliseconds = int(self.untaken_seconds * 1000)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        self._stop_deadline()
        self.room.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, and count those of an incomplete head."""
        progress = self._progress
        super().data_received(data)
        if self._progress != progress:
            self._header_bytes = 0
            return
        if self.transport.is_closing():
            return
        if self._deadline is None and not self._in_body:
            self._start_deadline()  # uvicorn's own timer, for idle connections, ends with any byte
        self._header_bytes += len(data)
        if self._header_bytes > self.max_header_bytes:
            self._has_large_headers = True
            self.send_400_response("")

    def on_headers_complete(self) -> None:
        """Handle the beginning of a request.

        Raises:
            ValueError: the request's headers are too large; the parser makes uvicorn send a 400.
        """
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        self._has_large_headers = size > self.max_header_bytes
        if self._has_large_headers:
            raise ValueError(size)
        self._stop_deadline()
        self._in_body = True
        self._progress += 1
        self.room.work(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note a piece of a request's body."""
        self._progress += 1
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of a request's body."""
        self._stop_deadline()
        self._in_body = False
        self._progress += 1
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Handle the end of an answer, perhaps before the end of the request's body."""
        super().on_response_complete()
        if not self._answers():  # a request that came early is next
            self.room.rest(self)
        if self._in_body and self._deadline is None and not self.transport.is_closing():
            self._start_deadline()

    def send_400_response(self, msg: str) -> None:
        """Send a JSON error for an unreadable request; never inside an answer."""
        if not self._answers():
            reason = f"Headers are larger than {self.max_header_bytes} bytes."
            error = reason if self._has_large_headers else msg
            body = msgspec.json.encode({"error": error, "status": "failed"})
            self.transport.write(
                b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n"
                b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(body), body)
            )
        self.transport.close()

    def make_room(self, *, is_new: bool) -> None:
        """Close the connection; a new one is told the reason."""
        if is_new:
            self.transport.write(
                b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\n"
                b"retry-after: 1\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"
                % (len(_FULL), _FULL)
            )
        self.transport.close()

    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(self.header_seconds, self._on_deadline)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._answers():  # half of a next request must not end the running one
            self._start_deadline()
        else:
            self.transport.close()


def bounded(most: int | None) -> type[BoundedProtocol]:
    """Return the protocol of one server, for so many connections; None: as open files allow."""
    return type("ServerProtocol", (BoundedProtocol,), {"room": ConnectionRoom(most)})
