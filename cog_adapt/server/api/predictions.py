"""POST and PUT of predictions and trainings, and their cancellation."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from weakref import WeakValueDictionary

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route

from cog_adapt.server.api.dependencies import caller_of, key_of, parts_of, read_prediction_id
from cog_adapt.server.api.following import end_elsewhere, joined_portions
from cog_adapt.server.api.leaving import watched
from cog_adapt.server.api.ownership import RecordLookup
from cog_adapt.server.api.passing import KeptBody, RunsElsewhere, being_handed_over, has_left
from cog_adapt.server.api.requests import RequestParser
from cog_adapt.server.api.responses import answer_body, json_response, record_body
from cog_adapt.server.api.sse import EventStream
from cog_adapt.server.errors import Forbidden, IdInUse, NotFound
from cog_adapt.server.middleware.audit import note_refusal
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.prediction import Prediction, PredictionSpec

_UNWATCHED_SECONDS = 0.05
Handler = Callable[[Request], Awaitable[Response]]


class PredictionRoutes:
    """The endpoints that run predictions or trainings.

    Args:
        kind: prediction or training.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind
        self._arriving = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    def add_to(self, app: FastAPI) -> None:
        """Add the routes."""
        noun = NOUNS[self._kind]
        path, one = f"/{noun}s", f"/{noun}s/{{{noun}_id}}"
        routes: tuple[tuple[str, str, Handler], ...] = (
            ("POST", path, self.create),
            ("POST", f"{one}/cancel", cancel),
            ("PUT", one, self.create_once),
        )
        for method, at, handle in routes:
            app.router.routes.append(Route(at, handle, methods=[method]))

    async def create(self, request: Request) -> Response:
        """Start a run, under an id of the client or a new one."""
        call = _Call(request, self._kind)
        asked = await call.parser.read(request)
        return await self._answer(call, await self._start(call, asked))

    async def create_once(self, request: Request) -> Response:
        """Start a run under an id, unless the id is running or has run."""
        call, prediction_id = _Call(request, self._kind), await read_prediction_id(request)
        kept = KeptBody(request.receive)
        asked = await call.parser.read(Request(request.scope, kept.receive), prediction_id)
        key = prediction_id, call.caller.owner
        lock = self._arriving.setdefault(key, asyncio.Lock())
        # of equal requests that arrive at once, one starts the run and the others find it
        try:
            async with lock:
                started = await self._find(call, asked) or await self._started_or_found(call, asked)
        except RunsElsewhere as elsewhere:
            elsewhere.body = kept.content
            raise
        kept.drop()
        return started if isinstance(started, Response) else await self._answer(call, started)

    async def _started_or_found(
        self, call: "_Call", asked: PredictionSpec
    ) -> Prediction | Response:
        """Start a run; if another server of the same database was first, answer from its record."""
        try:
            return await self._start(call, asked)
        except IdInUse:
            known = await self._find(call, asked)
            if known is None:
                raise
            return known

    async def _find(self, call: "_Call", asked: PredictionSpec) -> Response | None:
        """Return the answer of a PUT whose id is running or has run; None for a new one."""
        kind = None if call.is_strict else call.dispatcher.kind
        running = await call.service.find_here(asked.id, kind, call.caller.owner)
        if running is not None:
            _check_scope(call.request, running.request.kind)
            return _join(call, asked, running)
        if call.is_strict or not call.service.is_ready:
            return None
        return await _replay(call, asked)

    async def _start(self, call: "_Call", asked: PredictionSpec) -> Prediction:
        asked = call.parser.checked(asked)
        call.dispatcher.start()
        return await call.dispatcher.submit(asked)

    async def _answer(self, call: "_Call", prediction: Prediction) -> Response:
        asked = prediction.request
        if asked.is_stream:
            leave = partial(call.dispatcher.cancel, prediction.id, call.caller.owner)
            return EventStream(
                joined_portions(call.request, call.look(asked.id), prediction), leave
            )
        if asked.is_async:
            return json_response({"id": prediction.id, "status": "starting"}, 202)
        return await self._outcome(call, prediction)

    async def _outcome(self, call: "_Call", prediction: Prediction) -> Response:
        """Return the finished prediction, or its present state when the client's wait is over."""
        wait = prediction.request.wait
        if wait is not None:
            until = time.monotonic() + wait
            await asyncio.wait({prediction.done}, timeout=wait)
            if prediction.has_moved:
                look, left = call.look(prediction.id), until - time.monotonic()
                return _shown(await end_elsewhere(call.request, look, prediction, left))
            if not prediction.done.done():
                return json_response(prediction.progress(), 202)
        else:
            await self._end_with_client(call, prediction)
        # the caller may ask for it again, and finds it after any crash
        await prediction.settle()
        if prediction.has_moved:  # while this server was taken for dead
            return await _as_recorded(call, prediction)
        return json_response(prediction.answer())

    async def _end_with_client(self, call: "_Call", prediction: Prediction) -> None:
        """Wait for the end; cancel the prediction if the client leaves.

        Most answers are ready before a client can leave, and watching for it takes 20 µs.
        """
        await asyncio.wait({prediction.done}, timeout=_UNWATCHED_SECONDS)
        if prediction.done.done():
            return
        leave = partial(call.dispatcher.cancel, prediction.id, call.caller.owner)
        async with watched(call.request.receive, leave):
            await asyncio.wait({prediction.done})


def _shown(record: Record) -> Response:
    """Return the answer to a client that waits for a run which another server has taken."""
    if record.is_finished:
        return json_response(answer_body(record))
    return json_response(record_body(record), 202)


class _Call:
    """A request, and the dispatcher that serves it."""

    def __init__(self, request: Request, kind: Kind) -> None:
        parts = parts_of(request)
        self.request = request
        self.service = parts.service
        self.is_strict = parts.settings.strict_cog
        self.caller = caller_of(request)
        dispatcher = self.service.dispatcher(kind)
        if dispatcher is None:
            raise NotFound(f"this server runs no {NOUNS[kind]}s; it has no code for them.")
        self.dispatcher: Dispatcher = dispatcher
        self.parser = RequestParser(
            service=self.service,
            webhooks=parts.webhooks,
            kind=kind,
            runs=dispatcher.kind,
            large=parts.large_bodies,
        )

    def look(self, prediction_id: str) -> RecordLookup:
        """Look a run of the caller up."""
        return RecordLookup(self.service, self.caller, prediction_id)


async def cancel(request: Request) -> Response:
    """Cancel a prediction or training."""
    service, prediction_id = parts_of(request).service, await read_prediction_id(request)
    look = RecordLookup(service, caller_of(request), prediction_id)
    owner = look.owner_in_flight()
    found = await service.find_here(prediction_id, None, owner)
    if found is not None:
        _check_scope(request, found.request.kind)
        service.cancel(prediction_id, owner)
        if not await has_left(found):
            return json_response({})
    for kind in NOUNS:
        record = await look.find_unfinished(kind)
        if record is not None:
            _check_scope(request, kind)
            raise RunsElsewhere(record) if look.is_elsewhere(record) else being_handed_over(record)
    look.caller.note_unknown()
    return json_response({}, 404)


def _check_scope(request: Request, kind: Kind) -> None:
    """Refuse a key for predictions alone if the path of a prediction leads to a training.

    Raises:
        Forbidden: the key lacks the scope.
    """
    key = key_of(request)
    if key is not None and not key.opens(kind):
        note_refusal(request.scope, f"lacks the scope {kind}")
        raise Forbidden(f"The API key {key.name!r} lacks the scope {kind!r}.")


def _join(call: _Call, asked: PredictionSpec, running: Prediction) -> Response:
    """Answer a PUT whose id is running, without starting a run."""
    is_checked = asked.input and not call.is_strict  # without an input, any running input fits
    if is_checked and call.parser.fitted(asked).digest != running.request.digest:
        raise _other_input(running.id)
    if not asked.is_stream:
        return json_response(running.progress(), 202)
    call.parser.check_stream(asked)
    capacity = call.service.settings.cog_stream_history_capacity
    after = 0 if capacity else None
    return EventStream(joined_portions(call.request, call.look(running.id), running, after))


async def _replay(call: _Call, asked: PredictionSpec) -> Response | None:
    """Answer a PUT whose id has run, or runs on another server, from its record."""
    records, kind = call.service.records, call.dispatcher.kind
    for owner in call.caller.replayed:
        record = await records.get(asked.id, kind, owner)
        if record is not None:
            return _answer_again(call, asked, record)
    return None


def _answer_again(call: _Call, asked: PredictionSpec, record: Record) -> Response:
    if call.service.records.peers.is_elsewhere(record):
        raise RunsElsewhere(record, _joined_unasked(call, asked, record))
    if record.input_digest != call.parser.fitted(asked).digest:
        raise _other_input(record.id)
    if not record.is_finished:
        return json_response(record_body(record), 202)
    return json_response(record_body(record), 200, {"Idempotent-Replayed": "true"})


def _joined_unasked(call: _Call, asked: PredictionSpec, record: Record) -> Response | None:
    """Return the answer for the case that the server that runs it cannot be asked for more."""
    if asked.input and record.input_digest != call.parser.fitted(asked).digest:
        raise _other_input(record.id)
    return None if asked.is_stream else json_response(record_body(record), 202)


async def _as_recorded(call: _Call, prediction: Prediction) -> Response:
    """Return the state of a prediction that another server has taken, by that server's record."""
    kind, name, owner = prediction.key
    record = await call.service.records.get(name, kind, owner)
    if record is None:
        return json_response(prediction.progress(), 202)
    return json_response(record_body(record), 200 if record.is_finished else 202)


def _other_input(prediction_id: str) -> IdInUse:
    return IdInUse(
        f"id {prediction_id!r} belongs to a prediction with another input. Choose another id."
    )
