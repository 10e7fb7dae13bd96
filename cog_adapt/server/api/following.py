"""The events of a run to its end, at whichever server it goes on."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from functools import partial
from urllib.parse import quote, unquote

import httpx2
import structlog
from starlette.requests import Request

from cog_adapt.server.api.dependencies import parts_of
from cog_adapt.server.api.ownership import RecordLookup
from cog_adapt.server.api.past_events import past_events
from cog_adapt.server.api.sse import Write, follow, write_event
from cog_adapt.server.errors import OwnerGone, StorageError
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.prediction import Prediction

_LOOK_SECONDS = 0.5
_NUMBER = b"id: "
_GoOn = Callable[[Record, int], AsyncGenerator[bytes]]
log = structlog.get_logger()


async def event_portions(
    request: Request, look: RecordLookup, kind: Kind, after: int, write: Write
) -> AsyncGenerator[bytes]:
    """Return the events of a run after one that was seen: live, cached, or from the record.

    Raises:
        NotFound: the caller has no such run.
        IdInUse: as `RecordLookup.owner`.
        RunsElsewhere: another server runs it.
    """
    owner = await look.owner(kind)

    def go_on(record: Record, seen: int) -> AsyncGenerator[bytes]:
        return parts_of(request).peers.go_on(request, record, seen)

    prediction = await look.service.find_here(look.id, kind, owner)
    if prediction is not None:
        live = follow(prediction, after, write)
        return _to_the_end(look, prediction, live, write, go_on)
    record = await look.here(kind)
    cached = look.service.find_cached(look.id, kind, owner)
    is_of_it = cached is not None and cached.created_at == record.created_at
    if cached is not None and is_of_it and not cached.events.missed(after):
        return follow(cached, after, write)
    if record.is_finished:
        return past_events(record, after, write)
    return _from_anywhere(look, kind, after, write, go_on)


def joined_portions(
    request: Request, look: RecordLookup, running: Prediction, after: int | None = 0
) -> AsyncGenerator[bytes]:
    """Return the events of a run to the client that has started or joined it, in Cog's form."""

    def go_on(record: Record, seen: int) -> AsyncGenerator[bytes]:
        path, raw_path = request.scope["path"], request.scope["raw_path"]
        asked = {**request.scope, "method": "GET", "path": f"{path}/events"}
        asked["raw_path"] = raw_path + b"/events"
        return _without_numbers(parts_of(request).peers.go_on(Request(asked), record, seen))

    return _to_the_end(look, running, follow(running, after), write_event, go_on)


async def end_elsewhere(
    request: Request, look: RecordLookup, moved: Prediction, seconds: float
) -> Record:
    """Follow a run that another server has taken, to its end or for a time; return its record.

    Raises:
        NotFound: it was forgotten.
    """
    kind = moved.request.kind
    path = f"/{NOUNS[kind]}s/{quote(moved.id, safe='')}/events"
    asked = {**request.scope, "method": "GET", "query_string": b""}
    followed = Request(asked | {"path": unquote(path), "raw_path": path.encode()})
    go_on = partial(parts_of(request).peers.go_on, followed)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(_until_ended(look, kind, go_on), seconds)
    return await look.record(kind)


async def _until_ended(look: RecordLookup, kind: Kind, go_on: _GoOn) -> None:
    """Read a run's events to the end, at one server after another if one of them leaves."""
    while not (await look.record(kind)).is_finished:
        try:
            await _read_out(_from_anywhere(look, kind, 0, write_event, go_on))
        except httpx2.TransportError as error:
            log.info("the server that runs what is waited for has left", error=str(error))
            await asyncio.sleep(_LOOK_SECONDS)


async def _read_out(events: AsyncGenerator[bytes]) -> None:
    async with aclosing(events):
        async for _ in events:
            pass


async def _to_the_end(
    look: RecordLookup,
    prediction: Prediction,
    live: AsyncGenerator[bytes],
    write: Write,
    go_on: _GoOn,
) -> AsyncGenerator[bytes]:
    """Yield the live events, and those at the server that takes the run while it waits here."""
    async with aclosing(live):
        async for portion in live:
            yield portion
    if not prediction.has_moved:
        return
    # only its places in the queue have been seen
    rest = _from_anywhere(look, prediction.request.kind, 0, write, go_on)
    async with aclosing(rest):
        async for portion in rest:
            yield portion


async def _from_anywhere(
    look: RecordLookup, kind: Kind, after: int, write: Write, go_on: _GoOn
) -> AsyncGenerator[bytes]:
    """Yield the events of an unfinished run as soon as some server runs it.

    While no server does, or the database cannot tell which, its reader waits.
    """
    first, has_said = None, False
    while first is None:
        try:
            portions = await _portions_now(look, kind, after, write, go_on)
            first = await anext(portions, b"")
        except (OwnerGone, StorageError) as error:
            await _wait_for_a_server(error, has_said=has_said)
            has_said = True
    async with aclosing(portions):
        yield first
        async for portion in portions:
            yield portion


async def _wait_for_a_server(error: Exception, *, has_said: bool) -> None:
    if not has_said:
        log.info("a run that is followed goes on at no server yet", error=str(error))
    await asyncio.sleep(_LOOK_SECONDS)


async def _portions_now(
    look: RecordLookup, kind: Kind, after: int, write: Write, go_on: _GoOn
) -> AsyncGenerator[bytes]:
    """Return the events by this server, by the record, or by the server that runs it."""
    prediction = await look.service.find_here(look.id, kind, await look.owner(kind))
    if prediction is not None:
        return _to_the_end(look, prediction, follow(prediction, after, write), write, go_on)
    record = await look.record(kind)
    return past_events(record, after, write) if record.is_finished else go_on(record, after)


async def _without_numbers(events: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Leave out the numbers, which Cog's stream lacks."""
    rest = b""
    async with aclosing(events):
        async for piece in events:
            *blocks, rest = (rest + piece).split(b"\n\n")
            kept = [b"\n".join(_unnumbered(block)) + b"\n\n" for block in blocks]
            yield b"".join(kept)


def _unnumbered(block: bytes) -> list[bytes]:
    return [line for line in block.split(b"\n") if not line.startswith(_NUMBER)]
