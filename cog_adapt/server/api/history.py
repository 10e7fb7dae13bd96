"""What was and is run: single records, pages of them, their events and their webhooks."""

import re
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec
from fastapi import FastAPI, Request
from starlette.responses import Response

from cog_adapt.server.api.body import Refused
from cog_adapt.server.api.predictions import service_of
from cog_adapt.server.api.responses import json_answer, record_body
from cog_adapt.server.api.sse import EventStream, follow, to_bytes, translated
from cog_adapt.server.errors import InputError
from cog_adapt.server.middleware.raw_path import name_in
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.service.events import Event
from cog_adapt.server.service.mapping import to_record
from cog_adapt.server.service.prediction import encode

_STATUSES = ("starting", "processing", "succeeded", "failed", "canceled")
_MOST_A_PAGE = 1000
_NUMBER = re.compile(r"[0-9]{1,15}")  # more digits than int() takes would be a fault of ours


class HistoryRoutes:
    """The endpoints that look things up.

    Args:
        kind: prediction or training.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind

    def add_to(self, app: FastAPI) -> None:
        """Add the routes."""
        path = f"/{NOUNS[self._kind]}s"
        app.add_route(path, self.page, methods=["GET"])
        app.add_route(f"{path}/{{name}}", self.show, methods=["GET"])
        app.add_route(f"{path}/{{name}}/events", self.events, methods=["GET"])
        app.add_route(f"{path}/{{name}}/stream", self.stream, methods=["GET"])
        app.add_route(f"{path}/{{name}}/deliveries", self.deliveries, methods=["GET"])
        app.add_route(
            f"{path}/{{name}}/deliveries/{{delivery}}/redeliver", self.redeliver, methods=["POST"]
        )

    async def page(self, request: Request) -> Response:
        """Some records, newest first."""
        query = request.query_params
        statuses = [status for part in query.getlist("status") for status in part.split(",")]
        unknown = [status for status in statuses if status not in _STATUSES]
        if unknown:
            raise Refused(
                422,
                f"status is {unknown[0]!r}; allowed: {', '.join(_STATUSES)}.",
                ("query", "status"),
            )
        limit = _read_limit(query.get("limit", "100"))
        try:
            page = await service_of(request).records.page(
                self._kind, statuses, query.get("cursor"), limit
            )
        except InputError as error:
            raise Refused(404, f"there is no such page: {error}.") from error
        results = [record_body(record) for record in page.records]
        return json_answer({"results": results, "next": page.next_cursor})

    async def show(self, request: Request) -> Response:
        """One record, finished or not."""
        service, name = service_of(request), name_in(request)
        prediction = service.find(name, self._kind)
        if prediction is not None:
            body = record_body(to_record(prediction))
            position = service.dispatchers[self._kind].waiting.place(prediction)
            return json_answer(body | ({"queue_position": position} if position else {}))
        return json_answer(record_body(await self._find(request, name)))

    async def events(self, request: Request) -> Response:
        """What happens, live; and what happened, from `Last-Event-ID` on."""
        return EventStream(await self._portions(request))

    async def stream(self, request: Request) -> Response:
        """The same for Replicate's clients, in the words of its platform."""
        return EventStream(translated(await self._portions(request)))

    async def _portions(self, request: Request) -> AsyncGenerator[bytes]:
        after = _read_number(request.headers.get("last-event-id", "0"))
        service, name = service_of(request), name_in(request)
        prediction = service.find(name, self._kind)
        if prediction is not None:
            return follow(prediction, after, numbered=True)
        ended = service.find_cached(name, self._kind)
        if ended is not None and not ended.events.missed(after):
            return follow(ended, after, numbered=True)
        return _past_events(await self._find(request, name), after)

    async def deliveries(self, request: Request) -> Response:
        """The webhooks that were owed for it, and what became of them."""
        name = name_in(request)
        await self._find(request, name)
        found = await service_of(request).records.deliveries(name, self._kind)
        return json_answer({"results": [_delivery_body(delivery) for delivery in found]})

    async def redeliver(self, request: Request) -> Response:
        """Send a webhook once more."""
        delivery: str = request.path_params["delivery"]
        name = name_in(request)
        await self._find(request, name)
        service = service_of(request)
        found = await service.records.deliveries(name, self._kind)
        for each in found:
            if each.id == delivery:
                done = await request.app.state.webhooks.redeliver(each)
                return json_answer(_delivery_body(done))
        raise Refused(404, f"there is no delivery {delivery[:80]!r} of {name!r}.")

    async def _find(self, request: Request, name: str) -> Record:
        service = service_of(request)
        prediction = service.find(name, self._kind)
        record = await service.records.get(name, self._kind) if prediction is None else None
        if prediction is not None:
            return to_record(prediction)
        if record is None:
            raise Refused(404, f"there is no {NOUNS[self._kind]} {name[:80]!r}.")
        return record


def _read_limit(text: str) -> int:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= _MOST_A_PAGE:
        raise Refused(
            422, f"limit is {text[:20]!r}; allowed: 1 to {_MOST_A_PAGE}.", ("query", "limit")
        )
    return int(text)


def _read_number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise Refused(
            422,
            f"Last-Event-ID is {text[:20]!r}; allowed: the id of an event, a whole number.",
            ("header", "last-event-id"),
        )
    return int(text)


def _delivery_body(delivery: Delivery) -> dict[str, Any]:
    names = "id event url state attempts last_status last_error created_at delivered_at"
    return {name: getattr(delivery, name) for name in names.split()}


async def _past_events(record: Record, after: int) -> AsyncGenerator[bytes]:
    """The events of a record, as far as it still tells: logs in one piece."""
    account = record_body(record) | {"output": msgspec.Raw((record.output or "null").encode())}
    past: list[tuple[str, bytes]] = [("start", encode({"id": record.id, "status": "processing"}))]
    if record.logs:
        past.append(("log", encode({"source": "stdout", "data": record.logs})))
    past += [("metric", encode(metric)) for metric in _metrics_of(record)]
    output = msgspec.json.decode(record.output or "null")
    chunks = output if isinstance(output, list) else [] if output is None else [output]
    past += [("output", encode({"chunk": c, "index": i})) for i, c in enumerate(chunks)]
    past.append(("completed", encode(account)))
    events = [Event(number, name, data) for number, (name, data) in enumerate(past, 1)]
    if after >= len(events):  # the live stream had more numbers than the record can tell
        events = [Event(after + 1, *past[-1])]
        after = 0
    yield b"".join(to_bytes(event, numbered=True) for event in events if event.number > after)


def _metrics_of(record: Record) -> Iterator[dict[str, Any]]:
    """The last values, by the dotted names of the live events."""
    groups = [("", msgspec.json.decode(record.metrics))]
    for prefix, group in groups:
        for name, value in group.items():
            if isinstance(value, dict):
                groups.append((f"{prefix}{name}.", value))
            elif prefix + name != "predict_time":
                yield {"name": prefix + name, "value": value, "mode": "replace"}
