"""Predictions and trainings of a server, from a request to its end, over any transport.

A run is started by PUT under an id of the client's, so a repeated PUT finds the run instead of
starting another. Its events are followed over cut connections by `Last-Event-ID`. Cog's own server
has no events of runs: there one answer, or its stream, tells all, and a cut is an error.
"""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any
from urllib.parse import quote

import httpx2

from cog_adapt.client.connection import Call, Connection, Patience, content
from cog_adapt.client.errors import (
    Busy,
    ClientError,
    Conflict,
    NotFound,
    RunCanceled,
    RunFailed,
    Unreachable,
    error_of,
)
from cog_adapt.client.files import encode_inputs
from cog_adapt.client.run import FINAL, Event, Kind, Run

_COLLECTIONS = {"predict": "/predictions", "train": "/trainings"}
# The server sends a comment every 15 s, so a longer silence is a dead connection.
_EVENTS = httpx2.Timeout(30.0, read=60.0)
_UNLIMITED = httpx2.Timeout(30.0, read=None)


class Runs:
    """The runs of a server.

    Args:
        connection: to the server.
        max_file_bytes: of all files in the inputs of one run.
    """

    def __init__(self, connection: Connection, max_file_bytes: int) -> None:
        self._connection = connection
        self._max_file_bytes = max_file_bytes
        self._has_events: bool | None = None  # unknown before the first run

    async def start(self, kind: Kind, inputs: Mapping[str, Any], run_id: str | None) -> Run:
        """Start a run without waiting for it; of an id that was sent before, return the run."""
        return Run(await self._start(await self._put(kind, inputs, run_id)))

    async def events(
        self, kind: Kind, inputs: Mapping[str, Any], run_id: str | None
    ) -> AsyncGenerator[Event]:
        """Start a run, and yield its events; the last one is `completed`."""
        run_id = run_id or uuid.uuid4().hex
        put = await self._put(kind, inputs, run_id)
        if await self._are_there_events(kind):
            await self._start(put)
            source: AsyncIterator[Event] = self.follow(kind, run_id, 0)
        else:
            source = self._at_once(kind, put)
        async for event in source:
            yield event

    async def finish(
        self,
        kind: Kind,
        inputs: Mapping[str, Any],
        *,
        run_id: str | None,
        on_event: Callable[[Event], object] | None,
    ) -> Run:
        """Start a run, and return it when it has succeeded; cancel it if the caller leaves."""
        run_id = run_id or uuid.uuid4().hex
        try:
            async with aclosing(self.events(kind, inputs, run_id)) as events:
                last = await _last(events, on_event or _ignore)
        except ClientError:
            raise
        except (Exception, KeyboardInterrupt, asyncio.CancelledError):
            await self._abandon(kind, run_id)
            raise
        return _succeeded(Run(last.data))

    async def follow(self, kind: Kind, run_id: str, after: int) -> AsyncGenerator[Event]:
        """Yield the events of a run after a number, over cut connections, each once."""
        position = _Position(after, self._connection.patience())
        while not position.is_at_end:
            async for event in self._until_cut(_path(kind, run_id), position):
                yield event

    async def get(self, kind: Kind, run_id: str) -> Run:
        """Return a run, ended or not."""
        return Run(await self._connection.json(Call("GET", _path(kind, run_id))))

    async def cancel(self, kind: Kind, run_id: str) -> bool:
        """Cancel a run; return False if the server has no such run in flight."""
        try:
            await self._connection.json(Call("POST", f"{_path(kind, run_id)}/cancel"))
        except NotFound:
            return False
        return True

    async def _abandon(self, kind: Kind, run_id: str) -> None:
        try:
            await self.cancel(kind, run_id)
        except ClientError:
            return  # the reason to leave is told, not this one

    async def _put(self, kind: Kind, inputs: Mapping[str, Any], run_id: str | None) -> Call:
        """Make the request that starts a run."""
        encode = partial(encode_inputs, inputs, self._max_file_bytes)
        content = await self._connection.transport.call(encode)
        path = _path(kind, run_id or uuid.uuid4().hex)
        return Call("PUT", path, content, inputs=inputs)

    async def _start(self, put: Call) -> dict[str, Any]:
        headers = {**put.headers, "Prefer": "respond-async"}
        return await self._connection.repeated(put._replace(headers=headers))

    async def _are_there_events(self, kind: Kind) -> bool:
        """Ask once whether the server has events of runs: of an unknown one it says so in JSON."""
        if self._has_events is None:
            path = f"{_path(kind, uuid.uuid4().hex)}/events"
            response = await self._connection.read(Call("GET", path))
            is_json = "json" in response.headers.get("content-type", "")
            if response.status_code not in (200, 404, 405):
                raise error_of(response, {})
            self._has_events = response.status_code == 404 and is_json
        return self._has_events

    async def _until_cut(self, path: str, position: "_Position") -> AsyncIterator[Event]:
        try:
            async for event in self._portion(path, position):
                yield event
            cut: ClientError = Unreachable(f"the events of {path} ended before the run.")
        except (Unreachable, Busy) as error:
            cut = error
        if not position.is_at_end:
            await position.patience.bear(cut)

    async def _portion(self, path: str, position: "_Position") -> AsyncIterator[Event]:
        headers = {"Last-Event-ID": str(position.seen)} if position.seen else {}
        call = Call("GET", f"{path}/events", headers=headers, timeout=_EVENTS)
        async for event in self._answered(call):
            position.note(event)
            yield event

    async def _at_once(self, kind: Kind, put: Call) -> AsyncIterator[Event]:
        """Run by one request, as Cog's own server has it."""
        is_stream = kind == "predict" and await self._may_stream()
        accept = {"Accept": "text/event-stream"} if is_stream else {}
        call = put._replace(headers={**put.headers, **accept}, timeout=_UNLIMITED)
        async for event in self._answered(call):
            yield event

    async def _may_stream(self) -> bool:
        document = await self._connection.json(Call("GET", "/openapi.json"))
        post = document.get("paths", {}).get("/predictions", {}).get("post", {})
        return bool(post.get("x-cog-streaming"))

    async def _answered(self, call: Call) -> AsyncIterator[Event]:
        """Yield the events of an answer, up to the end of the run."""
        async with self._connection.answer(call) as response:
            is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
            events = self._streamed(response) if is_stream else self._whole(response, call)
            async for event in events:
                yield event

    async def _streamed(self, response: httpx2.Response) -> AsyncIterator[Event]:
        async for sent in self._connection.transport.events(response):
            yield _event_of(sent)
            if sent.event == "completed":
                return

    async def _whole(self, response: httpx2.Response, call: Call) -> AsyncIterator[Event]:
        await self._connection.transport.read(response)
        record = content(response, call.inputs)
        if record.get("status") not in FINAL:
            raise Conflict("the run goes on, and this server has no events to follow it by.")
        yield Event("log", {"data": record.get("logs") or ""})
        yield Event("completed", record)


class _Position:
    """How far the events of a run have been read."""

    def __init__(self, seen: int, patience: Patience) -> None:
        self.seen = seen
        self.patience = patience
        self.is_at_end = False

    def note(self, event: Event) -> None:
        self.seen = max(self.seen, event.number)
        self.is_at_end = event.name == "completed"
        self.patience.renew()


def _event_of(sent: httpx2.ServerSentEvent) -> Event:
    data = sent.json()
    number = int(sent.id) if sent.id.isdigit() else 0
    return Event(sent.event, data if isinstance(data, dict) else {}, number)


async def _last(events: AsyncIterator[Event], on_event: Callable[[Event], object]) -> Event:
    """Pass each event on; return the last one."""
    async for event in events:
        on_event(event)
    return event


def _ignore(_event: Event) -> None:
    """Do nothing."""


def _succeeded(run: Run) -> Run:
    if run.status == "succeeded":
        return run
    raise RunCanceled(run) if run.status == "canceled" else RunFailed(run)


def _path(kind: Kind, run_id: str) -> str:
    return f"{_COLLECTIONS[kind]}/{quote(run_id, safe='')}"
