"""A closed loop of requests over kept connections, lean enough for one core.

The client understands only the HTTP of the compared servers, so that its own cost is
the same few microseconds for each of them.
"""

import re
import selectors
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

_READ = 2**18
_PATIENCE = 60.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END_OF_CHUNKS = b"\r\n0\r\n\r\n"


class ConnectionEndedError(Exception):
    """The server closed a connection within an answer."""


@dataclass
class Tally:
    """The results of one turn.

    Attributes:
        milliseconds: time of each answer with a 2xx status, from the first byte sent to the last
            one read.
        refused: number of answers with another status.
        seconds: duration of the turn.
    """

    milliseconds: list[float] = field(default_factory=list)
    refused: int = 0
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Requests with a 2xx answer a second."""
        return len(self.milliseconds) / self.seconds

    @property
    def refused_share(self) -> float:
        """The share of answers without a 2xx status."""
        return self.refused / max(1, len(self.milliseconds) + self.refused)

    def percentile(self, share: float) -> float:
        """Return the milliseconds that this share of the answers did not exceed; NaN for none."""
        ordered = sorted(self.milliseconds)
        place = min(len(ordered) - 1, int(share * len(ordered)))
        return ordered[place] if ordered else float("nan")


def to_request(path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return the bytes of a POST of JSON."""
    lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
    lines += [f"content-length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Connection:
    """A connection that carries one request after the other."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent_at = 0.0
        self._parts: list[bytes] = []
        self._missing: int | None = None

    def close(self) -> None:
        self.socket.close()

    def send(self, request: bytes) -> None:
        self._parts, self._missing = [], None
        self._sent_at = time.perf_counter()
        self.socket.sendall(request)

    def read(self, tally: Tally) -> bool:
        """Read the available bytes. Return whether the answer is complete, and then count it."""
        data = self.socket.recv(_READ)
        if not data:
            raise ConnectionEndedError
        self._parts.append(data)
        if self._missing is None:
            self._read_head()
        else:
            self._missing -= len(data)
        if self._missing is None or self._missing > 0:
            return False
        taken = (time.perf_counter() - self._sent_at) * 1000
        if self._parts[0][9:10] == b"2":
            tally.milliseconds.append(taken)
        else:
            tally.refused += 1
        return True

    def _read_head(self) -> None:
        answer = b"".join(self._parts)
        end = answer.find(b"\r\n\r\n")
        if end < 0:
            return
        length = _LENGTH.search(answer, 0, end)
        self._missing = end + 4 + (int(length[1]) if length else 0) - len(answer)
        self._parts = [answer]


def ask_for_a_while(port: int, request: bytes, *, connections: int, seconds: float) -> Tally:
    """Keep a request in flight on each connection for `seconds`."""
    with ExitStack() as stack:
        lines = [stack.enter_context(closing(_Connection(port))) for _ in range(connections)]
        selector = stack.enter_context(selectors.DefaultSelector())
        return _ask(lines, selector, request, seconds)


def _ask(
    lines: Sequence[_Connection],
    selector: selectors.BaseSelector,
    request: bytes,
    seconds: float,
) -> Tally:
    tally = Tally()
    for line in lines:
        selector.register(line.socket, selectors.EVENT_READ, line)
    for line in lines:
        line.send(request)
    began = time.perf_counter()
    for line in _readable(selector):
        if not line.read(tally):
            continue
        if time.perf_counter() < began + seconds:
            line.send(request)
        else:
            selector.unregister(line.socket)
    tally.seconds = time.perf_counter() - began
    return tally


def _readable(selector: selectors.BaseSelector) -> Iterator[_Connection]:
    """Yield each connection with something to read, until none is registered."""
    while selector.get_map():
        ready = selector.select(_PATIENCE)
        if not ready:
            raise TimeoutError(f"no answer within {_PATIENCE:g} s")
        yield from (key.data for key, _ in ready)


def read_stream(port: int, request: bytes) -> tuple[bytes, float]:
    """Return the body of a chunked answer, and the seconds that it took.

    Raises:
        ConnectionEndedError: the answer is incomplete.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
        began = time.perf_counter()
        connection.sendall(request)
        answer = _read_to_the_end(connection)
        taken = time.perf_counter() - began
    _, _, chunks = answer.partition(b"\r\n\r\n")
    return _join_chunks(chunks), taken


def _read_to_the_end(connection: socket.socket) -> bytes:
    parts: list[bytes] = []
    tail = b""
    while not tail.endswith(_END_OF_CHUNKS):
        data = connection.recv(_READ)
        if not data:
            raise ConnectionEndedError(b"".join(parts)[:500])
        parts.append(data)
        tail = (tail + data)[-len(_END_OF_CHUNKS) :]
    return b"".join(parts)


def _join_chunks(chunks: bytes) -> bytes:
    parts: list[bytes] = []
    start = 0
    while True:
        end = chunks.index(b"\r\n", start)
        size = int(chunks[start:end], 16)
        if not size:
            return b"".join(parts)
        parts.append(chunks[end + 2 : end + 2 + size])
        start = end + 4 + size
