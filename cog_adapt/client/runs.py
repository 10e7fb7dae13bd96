"""Predictions and trainings of a server, from a request to its end, over any transport.

A run is started by PUT under an id of the client's, so a repeated PUT finds the run instead of
starting another. Its events are followed over cut connections by `Last-Event-ID`. Cog's own server
has no events of runs: there one answer, or its stream, tells all, and a cut is an error.
"""

import asyncio
import contextlib
import math
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple
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
from cog_adapt.client.files import FileLimits, encode_inputs
from cog_adapt.client.run import FINAL, Event, Kind, Run
from cog_adapt.client.uploads import Uploads

_COLLECTIONS = {"predict": "/predictions", "train": "/trainings"}
# The server sends a comment every 15 s, so a longer silence is a dead connection.
_LONG_SILENCE, _SHORT_SILENCE = 60.0, 20.0  # s; without and with a deadline
_GRACE = 5.0  # s after the deadline, for the server's word that it has canceled the run


class Terms(NamedTuple):
    """How one run is asked for.

    Attributes:
        kind: prediction or training.
        run_id: of the caller's choice; None: a random one.
        deadline: seconds after which it is canceled, or None.
        retries: how often it runs again after a crash.
    """

    kind: Kind
    run_id: str | None = None
    deadline: float | None = None
    retries: int = 0


class _Asked(NamedTuple):
    """A run that is about to start: the request for it, and when its answers are given up."""

    kind: Kind
    put: Call
    until: float = math.inf


class Runs:
    """The runs of a server.

    Args:
        connection: to the server.
        files: how files are sent.
    """

    def __init__(self, connection: Connection, files: FileLimits) -> None:
        self._connection = connection
        self._most_bytes = files.most_bytes
        self._uploads = Uploads(connection, files.upload_above)
        self._has_events: bool | None = None  # unknown before the first run

    async def start(self, terms: Terms, inputs: Mapping[str, Any]) -> Run:
        """Start a run without waiting for it; of an id that was sent before, return the run."""
        return Run(await self._start(await self._asked(terms, inputs)))

    async def events(self, terms: Terms, inputs: Mapping[str, Any]) -> AsyncGenerator[Event]:
        """Start a run, and yield its events; the last one is `completed`."""
        asked = await self._asked(terms, inputs)
        if await self._are_there_events(terms.kind):
            await self._start(asked)
            source = self._followed(asked.put.path, 0, asked.until)
        else:
            source = self._at_once(asked)
        async for event in source:
            yield event

    async def finish(
        self,
        terms: Terms,
        inputs: Mapping[str, Any],
        on_event: Callable[[Event], object] | None,
    ) -> Run:
        """Start a run, and return it when it has succeeded; cancel it if the caller leaves."""
        terms = terms._replace(run_id=terms.run_id or uuid.uuid4().hex)
        try:
            async with aclosing(self.events(terms, inputs)) as events:
                last = await _last(events, on_event)
        except ClientError:
            raise
        except (Exception, KeyboardInterrupt, asyncio.CancelledError):
            with contextlib.suppress(ClientError):  # the reason to leave is told, not this one
                await self.cancel(terms.kind, str(terms.run_id))
            raise
        return _succeeded(Run(last.data))

    async def follow(self, kind: Kind, run_id: str, after: int) -> AsyncGenerator[Event]:
        """Yield the events of a run after a number, over cut connections, each once."""
        async for event in self._followed(_path(kind, run_id), after):
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

    async def _asked(self, terms: Terms, inputs: Mapping[str, Any]) -> _Asked:
        """Make the request that starts a run."""
        urls = await self._uploads.urls(terms.kind, inputs)
        fields = {"retries": terms.retries} if terms.retries else {}
        body = await self._connection.transport.call(
            encode_inputs, inputs, self._most_bytes, urls, **fields
        )
        path = _path(terms.kind, terms.run_id or uuid.uuid4().hex)
        put = Call("PUT", path, body, inputs=inputs)
        if terms.deadline is None:
            return _Asked(terms.kind, put)
        after = {"Cancel-After": f"{terms.deadline:.3f}s"}
        until = time.monotonic() + terms.deadline + _GRACE
        return _Asked(terms.kind, put._replace(headers={**put.headers, **after}), until)

    async def _start(self, asked: _Asked) -> dict[str, Any]:
        headers = {**asked.put.headers, "Prefer": "respond-async"}
        return await self._connection.repeated(asked.put._replace(headers=headers), asked.until)

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

    async def _followed(
        self, path: str, after: int, until: float = math.inf
    ) -> AsyncGenerator[Event]:
        position = _Position(after, self._connection.patience(until))
        while not position.is_at_end:
            headers = {"Last-Event-ID": str(position.seen)} if position.seen else {}
            call = Call("GET", f"{path}/events", headers=headers, timeout=_silence(until))
            async for event in self._until_cut(call, position):
                yield event

    async def _until_cut(self, call: Call, position: "_Position") -> AsyncIterator[Event]:
        cut: ClientError = Unreachable(f"{call.path} ended before the run.")
        try:
            async for event in self._answered(call):
                position.note(event)
                yield event
        except (Unreachable, Busy) as error:
            cut = error
        if not position.is_at_end:
            await position.patience.bear(cut)

    async def _at_once(self, asked: _Asked) -> AsyncGenerator[Event]:
        """Run by one request, as Cog's own server has it."""
        is_stream = asked.kind == "predict" and await self._may_stream()
        accept = {"Accept": "text/event-stream"} if is_stream else {}
        silence = None if math.isinf(asked.until) else max(asked.until - time.monotonic(), _GRACE)
        call = asked.put._replace(
            headers={**asked.put.headers, **accept}, timeout=httpx2.Timeout(30.0, read=silence)
        )
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
        self.seen = event.number or self.seen
        self.is_at_end = event.name == "completed"
        self.patience.renew()


def _silence(until: float) -> httpx2.Timeout:
    """Return the limits of a connection for events, which ends soon after a deadline."""
    if math.isinf(until):
        return httpx2.Timeout(30.0, read=_LONG_SILENCE)
    left = max(until - time.monotonic(), _GRACE)
    return httpx2.Timeout(min(30.0, left), read=min(_SHORT_SILENCE, left))


def _event_of(sent: httpx2.ServerSentEvent) -> Event:
    data = sent.json()
    number = int(sent.id) if sent.id.isdigit() else 0
    return Event(sent.event, data if isinstance(data, dict) else {}, number)


async def _last(events: AsyncIterator[Event], on_event: Callable[[Event], object] | None) -> Event:
    """Pass each event on; return the last one."""
    async for event in events:
        if on_event is not None:
            on_event(event)
    return event


def _succeeded(run: Run) -> Run:
    if run.status == "succeeded":
        return run
    raise RunCanceled(run) if run.status == "canceled" else RunFailed(run)


def _path(kind: Kind, run_id: str) -> str:
    return f"{_COLLECTIONS[kind]}/{quote(run_id, safe='')}"
