"""Server-sent events of a prediction, live or from the records."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Protocol

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cog_adapt.server.api.replicate_events import translate
from cog_adapt.server.service.events import Event, EventLog, MissedError
from cog_adapt.server.service.prediction import encode

KEEP_ALIVE_SECONDS = 15.0
_LINE_ENDS = [(prefix.encode(), b"\\u%04x" % ord(prefix)) for prefix in "\u2028\u2029\u0085"]
_KEEP_ALIVE = b":\n\n"
_HEADERS = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


def to_bytes(event: Event, *, numbered: bool) -> bytes:
    """An event in the format of a stream."""
    head = b"id: %d\n" % event.number if numbered else b""
    return b"%bevent: %b\ndata: %b\n\n" % (head, event.name.encode(), _in_one_line(event.data))


def _in_one_line(data: bytes) -> bytes:
    """JSON without the characters at which some clients break lines, and others do not."""
    for character, escape in _LINE_ENDS:
        data = data.replace(character, escape)
    return data


async def translated(portions: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """A numbered stream with events as Replicate's clients know them."""
    async with aclosing(portions):
        async for portion in portions:
            events = [translate(_read(block)) for block in portion.split(b"\n\n") if block]
            if renamed := b"".join(_as_text(event) for event in events if event):
                yield renamed


def _as_text(event: Event) -> bytes:
    """An event whose data is no JSON, with as many lines as it has."""
    lines = event.data.replace(b"\n", b"\ndata: ")
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.number, event.name.encode(), lines)


def _read(block: bytes) -> Event:
    fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
    return Event(int(fields.get(b"id", b"0")), fields[b"event"].decode(), fields[b"data"])


class Followed(Protocol):
    """A prediction, or what is kept of one that has ended."""

    @property
    def events(self) -> EventLog:
        """All but the last."""

    def completed(self) -> bytes:
        """The data of the last."""


def follow(
    prediction: Followed, after: int | None = 0, *, numbered: bool = False
) -> AsyncGenerator[bytes]:
    """A prediction's events until its end, in portions; none is missed from this call on.

    Args:
        prediction: to follow.
        after: the number of the last event that the reader has seen; None: no replay.
        numbered: whether events carry their number, for `Last-Event-ID`. Such a stream goes on
            after events that are no longer kept; Cog's ends there.
    """
    portions = prediction.events.follow(after)
    return _written(prediction, portions, after or 0, numbered=numbered)


async def _written(
    prediction: Followed, portions: AsyncGenerator[list[Event]], seen: int, *, numbered: bool
) -> AsyncGenerator[bytes]:
    try:
        async with aclosing(portions):
            async for portion in portions:
                yield b"".join([to_bytes(event, numbered=numbered) for event in portion])
                seen = portion[-1].number
    except MissedError as missed:
        reason = {
            "error": "SSE stream replay truncated; events were dropped",
            "skipped": missed.count,
        }
        yield to_bytes(Event(0, "error", encode(reason)), numbered=False)
        if numbered:
            async with aclosing(follow(prediction, seen + missed.count, numbered=True)) as rest:
                async for part in rest:
                    yield part
        return
    last = Event(prediction.events.next_number, "completed", prediction.completed())
    yield to_bytes(last, numbered=numbered)


class EventStream(Response):
    """A stream of server-sent events, with a comment in every long pause.

    Args:
        portions: bytes of whole events.
        on_leave: called when the reader has gone before the end.
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
        is_whole = False
        try:
            async for portion in _until(gone, self._portions):
                await send({"type": "http.response.body", "body": portion, "more_body": True})
            is_whole = not gone.done()
            if is_whole:
                await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await self._portions.aclose()
            if not is_whole and self._on_leave is not None:
                self._on_leave()


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _until(
    gone: "asyncio.Future[None]", portions: AsyncGenerator[bytes]
) -> AsyncIterator[bytes]:
    upcoming: asyncio.Future[bytes] | None = None
    try:
        while not gone.done():
            upcoming = upcoming or asyncio.ensure_future(_next_of(portions))
            both: set[asyncio.Future[Any]] = {upcoming, gone}
            await asyncio.wait(
                both,
                timeout=KEEP_ALIVE_SECONDS,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if upcoming.done():
                portion, upcoming = upcoming.result(), None
                if not portion:
                    return
                yield portion
            elif not gone.done():
                yield _KEEP_ALIVE
    finally:
        if upcoming is not None:
            upcoming.cancel()
            await asyncio.wait({upcoming})


async def _next_of(portions: AsyncGenerator[bytes]) -> bytes:
    """The next portion; empty at the end."""
    async for portion in portions:
        return portion
    return b""
