"""Writes the server-sent events of a prediction, live or from the records."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from typing import Any, Protocol

import httpx2
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cog_adapt.server.api.leaving import wait_until_left
from cog_adapt.server.api.replicate_events import translate
from cog_adapt.server.errors import StorageError
from cog_adapt.server.service.events import EventLog, MissedError, RunEvent
from cog_adapt.server.service.prediction import encode

KEEP_ALIVE_SECONDS = 15.0
_LINE_ENDS = [(prefix.encode(), b"\\u%04x" % ord(prefix)) for prefix in "\u2028\u2029\u0085"]
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")  # a reader of the stream ends a line at each of these
_KEEP_ALIVE = b":\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]
log = structlog.get_logger()

Write = Callable[[RunEvent], bytes]


def write_event(event: RunEvent) -> bytes:
    """Write an event as Cog does, without its number."""
    return b"event: %b\ndata: %b\n\n" % (event.name.encode(), _in_one_line(event.data))


def write_numbered(event: RunEvent) -> bytes:
    """Write an event with its number; 0 is none."""
    head = b"id: %d\n" % event.number if event.number else b""
    return head + write_event(event)


def write_translated(event: RunEvent) -> bytes:
    """Write an event for Replicate's clients: in lines of text, or not at all."""
    return b"".join(map(_write_lines, translate(event)))


def _write_lines(event: RunEvent) -> bytes:
    lines = _LINE_BREAK.sub(b"\ndata: ", event.data)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.number, event.name.encode(), lines)


def _in_one_line(data: bytes) -> bytes:
    """Escape the characters in JSON that only some clients take for line breaks."""
    for character, escape in _LINE_ENDS:
        data = data.replace(character, escape)
    return data


class Followed(Protocol):
    """A prediction in flight, or the cached events of an ended one."""

    @property
    def events(self) -> EventLog:
        """The events, without the last one."""

    @property
    def has_moved(self) -> bool:
        """Whether another server goes on with it, so that its events end here without the last."""

    def completed(self) -> bytes:
        """Return the data of the last event."""

    async def settle(self) -> None:
        """Wait until `has_moved` is known for good."""


def follow(
    prediction: Followed, after: int | None = 0, write: Write = write_event
) -> AsyncGenerator[bytes]:
    """Yield a prediction's events until its end, in portions, without missing any from now on.

    Args:
        prediction: the prediction to follow.
        after: the number of the last event that the reader has seen; None: no replay.
        write: writes an event. Cog's stream, the default, ends if events are missing; others
            continue, so that their readers can return with `Last-Event-ID`.
    """
    return _written(_Reading(prediction, after), write)


class _Reading:
    """The position of a reader in a prediction's events."""

    def __init__(self, prediction: Followed, after: int | None) -> None:
        self.prediction = prediction
        self.seen = after or 0
        self.is_broken = False
        self._reader = prediction.events.follow(after)

    async def next(self) -> list[RunEvent]:
        portion: list[RunEvent] = await anext(self._reader, [])
        self.seen = portion[-1].number if portion else self.seen
        return portion

    def skip(self, count: int) -> None:
        """Continue after missing events."""
        self.seen += count
        self._reader = self.prediction.events.follow(self.seen)

    async def close(self) -> None:
        await self._reader.aclose()


async def _written(reading: _Reading, write: Write) -> AsyncGenerator[bytes]:
    prediction = reading.prediction
    try:
        while portion := await _next_portion(reading, goes_on=write is not write_event):
            yield b"".join(map(write, portion))
        await prediction.settle()
        if not reading.is_broken and not prediction.has_moved:
            yield write(
                RunEvent(prediction.events.next_number, "completed", prediction.completed())
            )
    finally:
        await reading.close()


async def _next_portion(reading: _Reading, *, goes_on: bool) -> list[RunEvent]:
    """Return the next events, or a note that some are missing; nothing at the end."""
    if reading.is_broken:
        return []
    try:
        return await reading.next()
    except MissedError as missed:
        reason = {
            "error": "SSE stream replay truncated; events were dropped",
            "skipped": missed.count,
        }
        reading.is_broken = not goes_on
        if goes_on:
            reading.skip(missed.count)
        return [RunEvent(0, "error", encode(reason))]


class EventStream(Response):
    """A stream of server-sent events, with a comment in every long pause.

    Args:
        portions: bytes of whole events.
        on_leave: called when the reader leaves before the end.
    """

    def __init__(
        self, portions: AsyncGenerator[bytes], on_leave: Callable[[], object] | None = None
    ) -> None:
        self._portions = portions
        self._on_leave = on_leave
        self.status_code = 200
        self.background = None
        self.raw_headers = list(_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.ensure_future(wait_until_left(receive))
        paced, is_whole = _PacedPortions(self._portions, gone), False
        try:
            while portion := await paced.next():
                await send({"type": "http.response.body", "body": portion, "more_body": True})
            is_whole = not gone.done()
            if is_whole:
                await send({"type": "http.response.body", "body": b""})
        except (StorageError, httpx2.TransportError) as error:
            # the connection is cut, so that the reader comes back with Last-Event-ID
            log.warning("a stream was cut in the middle", error=str(error))
        finally:
            gone.cancel()
            await paced.close()
            if not is_whole and self._on_leave is not None:
                self._on_leave()


class _PacedPortions:
    """The portions until the reader is gone, with a comment in every long pause."""

    def __init__(self, portions: AsyncGenerator[bytes], gone: "asyncio.Future[None]") -> None:
        self._portions = portions
        self._gone = gone
        self._upcoming: asyncio.Future[bytes] | None = None

    async def next(self) -> bytes:
        """Return the next portion; nothing at the end, or when the reader is gone."""
        if self._gone.done():
            return b""
        self._upcoming = self._upcoming or asyncio.ensure_future(_next_of(self._portions))
        both: set[asyncio.Future[Any]] = {self._upcoming, self._gone}
        await asyncio.wait(both, timeout=KEEP_ALIVE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not self._upcoming.done():
            return b"" if self._gone.done() else _KEEP_ALIVE
        portion = self._upcoming.result()
        self._upcoming = None
        return portion

    async def close(self) -> None:
        """End the portions."""
        if self._upcoming is not None:
            self._upcoming.cancel()
            await asyncio.wait({self._upcoming})
        await self._portions.aclose()


async def _next_of(portions: AsyncGenerator[bytes]) -> bytes:
    """Return the next portion that is not empty; nothing at the end."""
    async for portion in portions:
        if portion:
            return portion
    return b""
