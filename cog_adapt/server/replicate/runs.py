"""Predictions and trainings by Replicate's API: created, listed, followed, canceled."""

import asyncio
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.api.body import RequestBody
from cog_adapt.server.api.dependencies import RequestCaller, read_prediction_id
from cog_adapt.server.api.following import end_elsewhere, event_portions
from cog_adapt.server.api.history import read_event_id
from cog_adapt.server.api.ownership import RecordLookup
from cog_adapt.server.api.passing import being_handed_over, has_left
from cog_adapt.server.api.requests import RequestParser
from cog_adapt.server.api.responses import json_response
from cog_adapt.server.api.sse import EventStream, write_translated
from cog_adapt.server.errors import InputError, InvalidRequest, NotFound
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.replicate.call import Call, Named, destination_of, version_of
from cog_adapt.server.replicate.naming import AdapterNaming
from cog_adapt.server.service.dispatcher import Dispatcher
from cog_adapt.server.service.mapping import to_record
from cog_adapt.server.service.platform_form import Origin, origin_of, platform_body
from cog_adapt.server.service.prediction import Prediction, PredictionSpec

_PAGE = 100
_LONGEST_WAIT = 58.0  # seconds; clients give up at 60, and one of them would then ask again
_WAIT = re.compile(r"wait(?:=([0-9]+))?")


class RunRoutes:
    """The endpoints of one kind.

    Args:
        kind: prediction or training.
        naming: gives trained adapters the names of their destinations.
    """

    def __init__(self, kind: Kind, naming: AdapterNaming) -> None:
        self._kind: Kind = kind
        self._naming = naming

    async def create(self, request: Request) -> Response:
        """Start a run; answer at once, or after the time that the client waits."""
        call = Call(request)
        dispatcher = self._dispatcher(call)
        parser = RequestParser(
            service=call.service,
            webhooks=call.parts.webhooks,
            kind=self._kind,
            runs=dispatcher.kind,
            large=call.parts.large_bodies,
        )
        asked, named = await self._read(call, parser)
        prediction = await self._start(dispatcher, parser.checked(asked))
        if self._kind == "train":
            self._naming.watch(prediction, call.parts.adapters, named.model)
        record = await self._waited(call, prediction)
        body = self._shown(call, record)
        if not record.is_finished:  # clients take any other status for the end
            body |= {"status": "starting", "output": None, "started_at": None}
        return json_response(body, 201)

    async def _waited(self, call: Call, prediction: Prediction) -> Record:
        """Return a run's record at its end, or after the time that the client waits."""
        wait = read_wait(call.request.headers)
        until = time.monotonic() + wait
        if wait:
            await asyncio.wait({prediction.done}, timeout=wait)
        if prediction.has_moved:
            look, left = _lookup(call, prediction.id), until - time.monotonic()
            return await end_elsewhere(call.request, look, prediction, left)
        if prediction.done.done() and prediction.written is not None:
            await asyncio.shield(prediction.written)
        return to_record(prediction)

    def _dispatcher(self, call: Call) -> Dispatcher:
        dispatcher = call.service.dispatcher(self._kind)
        if dispatcher is None:
            noun = NOUNS[self._kind]
            raise NotFound(f"this server runs no {noun}s; it has no code for them.")
        return dispatcher

    async def _start(self, dispatcher: Dispatcher, asked: PredictionSpec) -> Prediction:
        dispatcher.start()
        return await dispatcher.submit(asked)

    async def _read(self, call: Call, parser: RequestParser) -> tuple[PredictionSpec, Named]:
        """Read the body, and put what it names into the request."""
        body, checked = await parser.read_body(call.request)
        body.id = None  # the platform chooses
        named = await self._named(call, body)
        if named.adapter is not None:
            if checked is not None:
                raise InvalidRequest(
                    "a version that names an adapter goes with a body of 64 KiB at most. Send the "
                    "adapter as the input `adapter`, and leave it out of `version`.",
                    ("body", "version"),
                )
            body.input = _with_adapter(body, named.adapter)
        asked = parser.asked(call.request, body, checked)
        destination = named.model if self._kind == "train" else None
        origin = Origin(call.base, named.model, named.version, destination)
        if self._kind == "train":
            origin = msgspec.structs.replace(origin, model=call.model)
        return msgspec.structs.replace(
            asked,
            is_stream=False,
            # a training's name is given here, at its end (`AdapterNaming`)
            is_async=self._kind == "predict",
            durable=True,
            has_client_id=False,
            wait=None,
            origin=msgspec.json.encode(origin).decode(),
        ), named

    async def _named(self, call: Call, body: RequestBody) -> Named:
        if self._kind == "predict":
            return await call.named(body.version)
        own, version = version_of(call.service), call.request.path_params["version"]
        if version != own:
            raise NotFound(f"there is no version {version[:80]!r} to train; it is {own!r}.")
        return Named(destination_of(body.destination), own)

    async def page(self, request: Request) -> Response:
        """Return a page of the caller's runs, newest first; `next` is a URL."""
        call, query = Call(request), request.query_params
        filters = {
            name: query[name] for name in ("created_after", "created_before") if name in query
        }
        after, before = (_read_time(filters, name) for name in ("created_after", "created_before"))
        try:
            page = await call.service.records.page(
                kind=self._kind,
                cursor=query.get("cursor"),
                limit=_PAGE,
                owner=call.caller.listed,
                created=(after, before),
            )
        except InputError as error:
            raise NotFound(f"there is no such page: {error}.") from error
        following = None
        if page.next_cursor is not None:
            words = urlencode(filters | {"cursor": page.next_cursor})
            following = f"{call.base}/v1/{NOUNS[self._kind]}s?{words}"
        results = [self._shown(call, record) for record in page.records]
        return json_response({"previous": None, "next": following, "results": results})

    async def show(self, request: Request) -> Response:
        """Return a run, with its output so far."""
        call, look = await _look(request)

        def shown(record: Record) -> Response:
            return json_response(self._shown(call, record))

        record = await look.here(self._kind, instead=shown)
        destination = origin_of(record, call.origin).destination
        await self._naming.settle(record, call.parts.adapters, destination)
        return shown(record)

    async def cancel(self, request: Request) -> Response:
        """Cancel a run, and return it; one that has ended stays as it is."""
        call, look = await _look(request)
        owner = await look.owner(self._kind)
        prediction = await call.service.find_here(look.id, self._kind, owner)
        if prediction is not None:
            call.service.dispatchers[self._kind].cancel(look.id, owner)
            if not await has_left(prediction):
                return json_response(self._shown(call, to_record(prediction)))
        record = await look.here(self._kind)
        if not record.is_finished:
            raise being_handed_over(record)
        return json_response(self._shown(call, record))

    async def stream(self, request: Request) -> Response:
        """Stream a run's events to whoever has its signed URL: one client sends it no key."""
        call, name = Call(request), await read_prediction_id(request)
        owner = call.signed.owner(NOUNS[self._kind], name, request.query_params)
        look = RecordLookup(call.service, RequestCaller(owner), name)
        after = read_event_id(request.headers.get("last-event-id", "0"))
        return EventStream(await event_portions(request, look, self._kind, after, write_translated))

    def _shown(self, call: Call, record: Record) -> dict[str, Any]:
        origin = msgspec.structs.replace(origin_of(record, call.origin), base=call.base)
        body = platform_body(record, origin)
        if self._kind == "predict" and streams(call.service.schema()):
            query = call.signed.query(NOUNS[self._kind], record.id, record.owner)
            body["urls"]["stream"] = f"{body['urls']['get']}/stream?{query}"
        return body


async def _look(request: Request) -> tuple[Call, RecordLookup]:
    call = Call(request)
    return call, _lookup(call, await read_prediction_id(request))


def _lookup(call: Call, name: str) -> RecordLookup:
    return RecordLookup(call.service, call.caller, name)


def streams(document: Mapping[str, Any]) -> bool:
    """Return whether the model of a document gives its output in pieces."""
    output = document.get("components", {}).get("schemas", {}).get("Output", {})
    operation = document.get("paths", {}).get("/predictions", {}).get("post", {})
    return output.get("x-cog-array-type") == "iterator" or bool(operation.get("x-cog-streaming"))


def read_wait(headers: Mapping[str, str]) -> float:
    """Return the seconds that a client waits for the end: 0 without `Prefer: wait`."""
    preferred = [each.strip().lower() for each in headers.get("prefer", "").split(",")]
    waits = [match for each in preferred if (match := _WAIT.fullmatch(each))]
    if not waits:
        return 0.0
    return min(float(waits[0][1] or _LONGEST_WAIT), _LONGEST_WAIT)


def _read_time(query: Mapping[str, str], name: str) -> datetime | None:
    if name not in query:
        return None
    try:
        moment = datetime.fromisoformat(query[name])
    except ValueError as error:
        raise InvalidRequest(
            f"{name} is {query[name][:40]!r}; send a time such as 2026-01-31T12:00:00Z.",
            ("query", name),
        ) from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _with_adapter(body: RequestBody, adapter: str) -> msgspec.Raw:
    """Return the inputs of a body with the adapter among them.

    Raises:
        InvalidRequest: they name another one.
    """
    inputs = msgspec.json.decode(body.input)
    if not isinstance(inputs, dict):
        return body.input  # the check of the inputs refuses it
    if inputs.get("adapter") not in (None, "", adapter):
        raise InvalidRequest(
            f"version names the adapter {adapter[:80]!r}, and the input `adapter` another one. "
            "Send one of them.",
            ("body", "version"),
        )
    return msgspec.Raw(msgspec.json.encode(inputs | {"adapter": adapter}))
