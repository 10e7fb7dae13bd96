"""POST and PUT of predictions and trainings, and their cancellation."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from cog_adapt.server.api.body import Refused, RequestBody
from cog_adapt.server.api.requests import Preferences, RequestParser, read_headers, read_preferences
from cog_adapt.server.api.responses import json_answer, record_body
from cog_adapt.server.api.sse import EventStream, follow
from cog_adapt.server.middleware.keys import Key
from cog_adapt.server.middleware.raw_path import name_in
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.prediction import Prediction
from cog_adapt.server.service.service import PredictionService

Handler = Callable[[Request], Awaitable[Response]]
_MOST_FOLLOWERS = 1024


def service_of(request: Request) -> PredictionService:
    """The service of this server."""
    service: PredictionService = request.app.state.service
    return service


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
        request_body = await asked.parser.request_body(request, name)
        running = asked.service.find(name, None if asked.is_strict else asked.dispatcher.kind)
        if running is not None:
            _check_scope(request, running.request.kind)
            return _join(asked, request_body, running)
        if not asked.is_strict and asked.service.is_ready:
            replayed = await _replay(asked, request_body, name)
            if replayed is not None:
                return replayed
        return await self._run(asked, request_body)

    async def _run(self, asked: "_Asked", request_body: RequestBody | None = None) -> Response:
        if request_body is None:
            request_body = await asked.parser.request_body(asked.request)
        asked.parser.check_stream(asked.preferences)
        prediction_request = asked.parser.prediction_request(
            request_body, asked.headers, asked.preferences
        )
        dispatcher = asked.dispatcher
        dispatcher.start()
        prediction = await dispatcher.submit(prediction_request)
        if asked.preferences.is_stream:
            return EventStream(follow(prediction), partial(dispatcher.cancel, prediction.id))
        if asked.preferences.is_async:
            return json_answer({"id": prediction.id, "status": "starting"}, 202)
        return await _outcome(asked, prediction)


class _Asked:
    """A request, and who is to serve it."""

    def __init__(self, request: Request, kind: Kind) -> None:
        self.request, self.service = request, service_of(request)
        self.is_strict = self.service.settings.strict_cog
        dispatcher = self.service.dispatcher(kind)
        if dispatcher is None:
            raise Refused(404, f"this server runs no {NOUNS[kind]}s; it has no code for them.")
        self.dispatcher: Dispatcher = dispatcher
        self.parser = RequestParser(self.service, kind, dispatcher.kind)
        self.headers = read_headers(request)
        self.preferences: Preferences = read_preferences(self.headers, strict=self.is_strict)


async def cancel(request: Request) -> Response:
    """End a prediction or training early."""
    service, name = service_of(request), name_in(request)
    found = service.find(name)
    if found is None:
        return json_answer({}, 404)
    _check_scope(request, found.request.kind)
    service.cancel(name)
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
    if asked.preferences.wait is not None:
        await asyncio.wait({prediction.done}, timeout=asked.preferences.wait)
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

    asked.service.watches.add(begin)
    try:
        await asyncio.shield(prediction.done)
    finally:
        is_over = True
        if watch is not None:
            watch.cancel()


async def _cancel_when_left(asked: _Asked, prediction: Prediction) -> None:
    while (await asked.request.receive())["type"] != "http.disconnect":
        pass
    asked.dispatcher.cancel(prediction.id)


def _join(asked: _Asked, request_body: RequestBody, running: Prediction) -> Response:
    """The answer to a PUT whose id is running: nothing new starts."""
    is_checked = request_body.has_input and not asked.is_strict  # none: whatever its input is
    if is_checked and asked.parser.digest(request_body) != running.request.digest:
        raise _other_input(running.id)
    if not asked.preferences.is_stream:
        return json_answer(running.progress(), 202)
    asked.parser.check_stream(asked.preferences)
    if running.events.followers >= _MOST_FOLLOWERS:
        raise Refused(429, f"{_MOST_FOLLOWERS} readers follow this prediction; try later.")
    capacity = asked.service.settings.cog_stream_history_capacity
    return EventStream(follow(running, 0 if capacity else None))


async def _replay(asked: _Asked, request_body: RequestBody, name: str) -> Response | None:
    """The answer to a PUT whose id has run, or runs elsewhere: its record, and nothing runs."""
    record = await asked.service.records.get(name, asked.dispatcher.kind)
    if record is None:
        return None
    if record.input_digest != asked.parser.digest(request_body):
        raise _other_input(name)
    body: dict[str, Any] = record_body(record)
    if not record.is_finished:
        return json_answer(body, 202)
    return json_answer(body, 200, {"Idempotent-Replayed": "true"})


def _other_input(name: str) -> Refused:
    return Refused(
        409, f"id {name!r} belongs to a prediction with another input. Choose another id."
    )
