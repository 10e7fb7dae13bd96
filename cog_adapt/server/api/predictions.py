"""POST and PUT of predictions and trainings, and their cancellation."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from cog_adapt.server.api.body import Envelope, Refused
from cog_adapt.server.api.requests import Intake, Manner, read_headers, read_manner
from cog_adapt.server.api.responses import json_answer, record_body
from cog_adapt.server.api.sse import EventStream, follow
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.middleware.raw_path import name_in
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.service.dispatcher import Lane
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.service import Desk

Handler = Callable[[Request], Awaitable[Response]]
_MOST_FOLLOWERS = 1024


def desk_of(request: Request) -> Desk:
    """The desk of this server."""
    desk: Desk = request.app.state.desk
    return desk


class Endpoint:
    """A handler of requests as plain ASGI: the hot path skips what Starlette wraps around one.

    Args:
        handle: makes the answer; what it raises, the application's handlers answer.
    """

    def __init__(self, handle: Handler) -> None:
        self._handle = handle

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        response = await self._handle(Request(scope, receive, send))
        await response(scope, receive, send)


class Runs:
    """The endpoints that run something.

    Args:
        kind: prediction or training.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind

    def add_to(self, app: FastAPI) -> None:
        """Add the routes."""
        path = f"/{NOUNS[self._kind]}s"
        routes: tuple[tuple[str, str, Handler], ...] = (
            ("POST", path, self.create),
            ("POST", f"{path}/{{name}}/cancel", cancel),
            ("PUT", f"{path}/{{name}}", self.create_once),
        )
        for method, at, handle in routes:
            app.router.routes.append(Route(at, Endpoint(handle), methods=[method]))

    async def create(self, request: Request) -> Response:
        """Run, under an id of the client's or a new one."""
        return await self._run(_Asked(request, self._kind))

    async def create_once(self, request: Request) -> Response:
        """Run under an id, unless it is running or has run."""
        asked, name = _Asked(request, self._kind), name_in(request)
        envelope = await asked.intake.envelope(request, name)
        running = asked.desk.find(name, None if asked.is_strict else asked.lane.kind)
        if running is not None:
            _check_scope(request, running.order.kind)
            return _join(asked, envelope, running)
        if not asked.is_strict and asked.desk.is_ready:
            replayed = await _replay(asked, envelope, name)
            if replayed is not None:
                return replayed
        return await self._run(asked, envelope)

    async def _run(self, asked: "_Asked", envelope: Envelope | None = None) -> Response:
        if envelope is None:
            envelope = await asked.intake.envelope(asked.request)
        asked.intake.check_stream(asked.manner)
        order = asked.intake.order(envelope, asked.headers, asked.manner)
        lane = asked.lane
        lane.start()
        prediction = await lane.submit(order)
        if asked.manner.is_stream:
            return EventStream(follow(prediction), partial(lane.cancel, prediction.id))
        if asked.manner.is_async:
            return json_answer({"id": prediction.id, "status": "starting"}, 202)
        return await _outcome(asked, prediction)


class _Asked:
    """A request, and who is to serve it."""

    def __init__(self, request: Request, kind: Kind) -> None:
        self.request, self.desk = request, desk_of(request)
        self.is_strict = self.desk.settings.strict_cog
        lane = self.desk.lane(kind)
        if lane is None:
            raise Refused(404, f"this server runs no {NOUNS[kind]}s; it has no code for them.")
        self.lane: Lane = lane
        self.intake = Intake(self.desk, kind, lane.kind)
        self.headers = read_headers(request)
        self.manner: Manner = read_manner(self.headers, strict=self.is_strict)


async def cancel(request: Request) -> Response:
    """End a prediction or training early."""
    desk, name = desk_of(request), name_in(request)
    found = desk.find(name)
    if found is None:
        return json_answer({}, 404)
    _check_scope(request, found.order.kind)
    desk.cancel(name)
    return json_answer({})


def _check_scope(request: Request, kind: Kind) -> None:
    """Paths of predictions reach trainings too; a key for the former alone must not.

    Raises:
        Refused: 403.
    """
    key: Key | None = request.scope.get("state", {}).get("key")
    if key is not None and not key.opens(kind):
        raise Refused(403, f"The API key {key.name!r} lacks the scope {kind!r}.")


async def _outcome(asked: _Asked, prediction: Prediction) -> Response:
    """The end of a prediction, or what is known when the client's patience is over."""
    if asked.manner.wait is not None:
        await asyncio.wait({prediction.done}, timeout=asked.manner.wait)
        if not prediction.done.done():
            return json_answer(prediction.progress(), 202)
    else:
        await _end_with_client(asked, prediction)
    if prediction.written is not None:  # who may ask for it again, finds it after any crash
        await asyncio.shield(prediction.written)
    return json_answer(prediction.answer())


async def _end_with_client(asked: _Asked, prediction: Prediction) -> None:
    """Wait for the end, which comes early if the client leaves.

    Most predictions are over before anybody could leave; only others are watched.
    """
    watch: asyncio.Task[None] | None = None
    is_over = False

    def begin() -> None:
        nonlocal watch
        if not is_over:
            watch = asyncio.create_task(_cancel_when_left(asked, prediction))

    asked.desk.watches.add(begin)
    try:
        await asyncio.shield(prediction.done)
    finally:
        is_over = True
        if watch is not None:
            watch.cancel()


async def _cancel_when_left(asked: _Asked, prediction: Prediction) -> None:
    while (await asked.request.receive())["type"] != "http.disconnect":
        pass
    asked.lane.cancel(prediction.id)


def _join(asked: _Asked, envelope: Envelope, running: Prediction) -> Response:
    """The answer to a PUT whose id is running: nothing new starts."""
    is_checked = envelope.has_input and not asked.is_strict  # none: whatever its input is
    if is_checked and asked.intake.digest(envelope) != running.order.digest:
        raise _other_input(running.id)
    if not asked.manner.is_stream:
        return json_answer(running.progress(), 202)
    asked.intake.check_stream(asked.manner)
    if running.events.followers >= _MOST_FOLLOWERS:
        raise Refused(429, f"{_MOST_FOLLOWERS} readers follow this prediction; try later.")
    capacity = asked.desk.settings.cog_stream_history_capacity
    return EventStream(follow(running, 0 if capacity else None))


async def _replay(asked: _Asked, envelope: Envelope, name: str) -> Response | None:
    """The answer to a PUT whose id has run, or runs elsewhere: its record, and nothing runs."""
    record = await asked.desk.records.get(name, asked.lane.kind)
    if record is None:
        return None
    if record.input_digest != asked.intake.digest(envelope):
        raise _other_input(name)
    body: dict[str, Any] = record_body(record)
    if not record.is_finished:
        return json_answer(body, 202)
    return json_answer(body, 200, {"Idempotent-Replayed": "true"})


def _other_input(name: str) -> Refused:
    return Refused(
        409, f"id {name!r} belongs to a prediction with another input. Choose another id."
    )
