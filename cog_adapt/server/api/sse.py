"""Writes the server-sent events of a prediction, live or from the records."""

import asyncio
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cog_adapt.server.api.replicate_events import translate
from cog_adapt.server.service.events import Event, EventLog, MissedError
from cog_adapt.server.service.prediction import encode

KEEP_ALIVE_SECONDS = 15.0
_LINE_ENDS = [(prefix.encode(), b"\\u%04x" % ord(prefix)) for prefix in "\u2028\u2029\u0085"]
_LINE_BREAK = re.compile(rb"\r\n|\r|\n")  # what ends a line for a reader of the stream
_KEEP_ALIVE = b":\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


def to_bytes(event: Event, *, numbered: bool) -> bytes:
    """Write an event in the format of a stream."""
    head = b"id: %d\n" % event.number if numbered else b""
    return b"%bevent: %b\ndata: %b\n\n" % (head, event.name.encode(), _in_one_line(event.data))


def _in_one_line(data: bytes) -> bytes:
    """Escape the characters in JSON at which some clients break lines, and others do not."""
    for character, escape in _LINE_ENDS:
        data = data.replace(character, escape)
    return data


async def translated(portions: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Yield a numbered stream of events, renamed for Replicate's clients."""
    async with aclosing(portions):
        async for portion in portions:
            yield _translated(portion)


def _translated(portion: bytes) -> bytes:
    events = [translate(_read(block)) for block in portion.split(b"\n\n") if block]
    return b"".join(_as_text(event) for event in events if event)


def _as_text(event: Event) -> bytes:
    """Write an event whose data is not JSON, with as many lines as the data has."""
    lines = _LINE_BREAK.sub(b"\ndata: ", event.data)
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.number, event.name.encode(), lines)


def _read(block: bytes) -> Event:
    fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
    return Event(int(fields.get(b"id", b"0")), fields[b"event"].decode(), fields[b"data"])


class Followed(Protocol):
    """A prediction in flight, or the cached events of an ended one."""

    @property
    def events(self) -> EventLog:
        """The events, without the last one."""

    def completed(self) -> bytes:
        """Return the data of the last event."""


def follow(
    prediction: Followed, after: int | None = 0, *, numbered: bool = False
) -> AsyncGenerator[bytes]:
    """Yield a prediction's events until its end, in portions, without missing any from now on.

    Args:
        prediction: the prediction to follow.
        after: the number of the last event that the reader has seen; None: no replay.
        numbered: whether events carry their number, for `Last-Event-ID`. A numbered stream goes on
            after events that are no longer kept; Cog's stream ends there.
    """
    return _written(_Reading(prediction, after), numbered=numbered)


class _Reading:
    """The position of a reader in a prediction's events."""

    def __init__(self, prediction: Followed, after: int | None) -> None:
        self.prediction, self.seen, self.is_broken = prediction, after or 0, False
        self._reader = prediction.events.follow(after)

    async def next(self) -> list[Event]:
        portion: list[Event] = await anext(self._reader, [])
        self.seen = portion[-1].number if portion else self.seen
        return portion

    def skip(self, count: int) -> None:
        """Go on after events that are no longer kept."""
        self.seen += count
        self._reader = self.prediction.events.follow(self.seen)

    async def close(self) -> None:
        await self._reader.aclose()


async def _written(reading: _Reading, *, numbered: bool) -> AsyncGenerator[bytes]:
    prediction = reading.prediction
    try:
        while part := await _next_part(reading, numbered=numbered):
            yield part
        if not reading.is_broken:
            last = Event(prediction.events.next_number, "completed", prediction.completed())
            yield to_bytes(last, numbered=numbered)
    finally:
        await reading.close()


async def _next_part(reading: _Reading, *, numbered: bool) -> bytes:
    """Return the next events, or a note that some are missing; nothing at the end."""
    if reading.is_broken:
        return b""
    try:
        portion = await reading.next()
    except MissedError as missed:
        reason = {
            "error": "SSE stream replay truncated; events were dropped",
            "skipped": missed.count,
        }
        reading.is_broken = not numbered
        if numbered:
            reading.skip(missed.count)
        return to_bytes(Event(0, "error", encode(reason)), numbered=False)
    return b"".join([to_bytes(event, numbered=numbered) for event in portion])


class EventStream(Response):
    """A stream of server-sent events, with a comment in every long pause.

    Args:
        portions: bytes of whole events.
        on_leave: called when the reader leaves before the end.
    """

    def __init__(
        self, portions: AsyncGenerator[bytes], on_leave: Callable[[], object] | None = None
    ) -> None:
        self._portions, self._on_leave = portions, on_leave
        self.status_code, self.background = 200, None
        self.raw_headers = list(_HEADERS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        gone = asyncio.ensure_future(_wait_until_gone(receive))
        paced, is_whole = _PacedPortions(self._portions, gone), False
        try:
            while portion := await paced.next():
                await send({"type": "http.response.body", "body": portion, "more_body": True})
            is_whole = not gone.done()
            if is_whole:
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await paced.close()
            if not is_whole and self._on_leave is not None:
                self._on_leave()


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class _PacedPortions:
    """The portions until the reader is gone, with a comment in every long pause."""

    def __init__(self, portions: AsyncGenerator[bytes], gone: "asyncio.Future[None]") -> None:
        self._portions, self._gone = portions, gone
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
        portion, self._upcoming = self._upcoming.result(), None
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
