"""What was and is run: single records, pages of them, their events and their webhooks."""

import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.api.dependencies import PredictionIdDep, ServiceDep, WebhooksDep
from cog_adapt.server.api.past_events import past_events
from cog_adapt.server.api.responses import json_response, record_body
from cog_adapt.server.api.sse import EventStream, follow, translated
from cog_adapt.server.errors import InputError, InvalidRequest, NotFound
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.service.mapping import to_record
from cog_adapt.server.service.service import PredictionService

_STATUSES = ("starting", "processing", "succeeded", "failed", "canceled")
_MOST_A_PAGE = 1000
_NUMBER = re.compile(r"[0-9]{1,15}")  # more digits than int() takes would be a fault of ours


async def _last_event_id(request: Request) -> int:
    """Return the number of the last event that a reader has seen.

    Raises:
        InvalidRequest: it is no number.
    """
    text = request.headers.get("last-event-id", "0")
    if not _NUMBER.fullmatch(text):
        raise InvalidRequest(
            f"Last-Event-ID is {text[:20]!r}; allowed: the id of an event, a whole number.",
            ("header", "last-event-id"),
        )
    return int(text)


_LastEventIdDep = Annotated[int, Depends(_last_event_id)]


class HistoryRoutes:
    """The endpoints that look things up.

    Args:
        kind: prediction or training.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind

    def router(self) -> APIRouter:
        """Return the routes."""
        router, path = APIRouter(), f"/{NOUNS[self._kind]}s"
        one = f"{path}/{{prediction_id}}"
        reads: tuple[tuple[str, Callable[..., Awaitable[Response]]], ...] = (
            (path, self.page),
            (one, self.show),
            (f"{one}/events", self.events),
            (f"{one}/stream", self.stream),
            (f"{one}/deliveries", self.deliveries),
        )
        for at, endpoint in reads:
            router.add_api_route(at, endpoint, methods=["GET", "HEAD"])
        at = f"{one}/deliveries/{{delivery_id}}/redeliver"
        router.add_api_route(at, self.redeliver, methods=["POST"])
        return router

    async def page(self, request: Request, service: ServiceDep) -> Response:
        """Return some records, newest first."""
        query = request.query_params
        statuses = [status for part in query.getlist("status") for status in part.split(",")]
        unknown = [status for status in statuses if status not in _STATUSES]
        if unknown:
            raise InvalidRequest(
                f"status is {unknown[0]!r}; allowed: {', '.join(_STATUSES)}.", ("query", "status")
            )
        limit, cursor = _read_limit(query.get("limit", "100")), query.get("cursor")
        try:
            page = await service.records.page(self._kind, statuses, cursor, limit)
        except InputError as error:
            raise NotFound(f"there is no such page: {error}.") from error
        results = [record_body(record) for record in page.records]
        return json_response({"results": results, "next": page.next_cursor})

    async def show(self, service: ServiceDep, prediction_id: PredictionIdDep) -> Response:
        """Return one record, finished or not."""
        prediction = service.find(prediction_id, self._kind)
        if prediction is None:
            return json_response(record_body(await self._find(service, prediction_id)))
        body = record_body(to_record(prediction))
        position = service.dispatchers[self._kind].waiting.place(prediction)
        return json_response(body | ({"queue_position": position} if position else {}))

    async def events(
        self, after: _LastEventIdDep, service: ServiceDep, prediction_id: PredictionIdDep
    ) -> Response:
        """Stream what happens, live; and what happened, from `Last-Event-ID` on."""
        return EventStream(await self._portions(after, service, prediction_id))

    async def stream(
        self, after: _LastEventIdDep, service: ServiceDep, prediction_id: PredictionIdDep
    ) -> Response:
        """Stream the same for Replicate's clients, in the words of its platform."""
        return EventStream(translated(await self._portions(after, service, prediction_id)))

    async def _portions(
        self, after: int, service: PredictionService, prediction_id: str
    ) -> AsyncGenerator[bytes]:
        prediction = service.find(prediction_id, self._kind)
        if prediction is not None:
            return follow(prediction, after, numbered=True)
        cached = service.find_cached(prediction_id, self._kind)
        if cached is not None and not cached.events.missed(after):
            return follow(cached, after, numbered=True)
        return past_events(await self._find(service, prediction_id), after)

    async def deliveries(self, service: ServiceDep, prediction_id: PredictionIdDep) -> Response:
        """Return the webhooks that were owed for it, and what became of them."""
        await self._find(service, prediction_id)
        found = await service.records.deliveries(prediction_id, self._kind)
        return json_response({"results": [_delivery_body(delivery) for delivery in found]})

    async def redeliver(
        self,
        service: ServiceDep,
        webhooks: WebhooksDep,
        prediction_id: PredictionIdDep,
        delivery_id: str,
    ) -> Response:
        """Send a webhook once more."""
        await self._find(service, prediction_id)
        for each in await service.records.deliveries(prediction_id, self._kind):
            if each.id == delivery_id:
                return json_response(_delivery_body(await webhooks.redeliver(each)))
        raise NotFound(f"there is no delivery {delivery_id[:80]!r} of {prediction_id!r}.")

    async def _find(self, service: PredictionService, prediction_id: str) -> Record:
        prediction = service.find(prediction_id, self._kind)
        if prediction is not None:
            return to_record(prediction)
        record = await service.records.get(prediction_id, self._kind)
        if record is None:
            raise NotFound(f"there is no {NOUNS[self._kind]} {prediction_id[:80]!r}.")
        return record


def _read_limit(text: str) -> int:
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= _MOST_A_PAGE:
        raise InvalidRequest(
            f"limit is {text[:20]!r}; allowed: 1 to {_MOST_A_PAGE}.", ("query", "limit")
        )
    return int(text)


def _delivery_body(delivery: Delivery) -> dict[str, Any]:
    names = "id event url state attempts last_status last_error created_at delivered_at"
    return {name: getattr(delivery, name) for name in names.split()}
