"""Serves past and present runs: single records, pages of records, their events and webhooks."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, get_args

from annotated_types import Interval
from fastapi import APIRouter, Depends, Header, Query
from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from cog_adapt.server.api.dependencies import ID_IN_PATH, ServiceDep, WebhooksDep
from cog_adapt.server.api.following import event_portions
from cog_adapt.server.api.ownership import CallerDep, LookDep, RecordLookup
from cog_adapt.server.api.paging import NUMBER, Cursor, Limit
from cog_adapt.server.api.responses import json_response
from cog_adapt.server.api.shapes import (
    STREAM,
    Deliveries,
    Delivery,
    Page,
    Responses,
    Run,
    Status,
    refusals,
)
from cog_adapt.server.api.sse import EventStream, write_numbered, write_translated
from cog_adapt.server.errors import InputError, InvalidRequest, NotFound
from cog_adapt.server.protocol import NOUNS, Kind
from cog_adapt.server.records import Record
from cog_adapt.server.records.record import Delivery as OwedDelivery
from cog_adapt.server.service.mapping import to_record
from cog_adapt.server.webhooks import shown_url

_STATUSES = get_args(Status)


def _read_statuses(given: list[str]) -> list[str]:
    """Return the statuses of a query, with commas between or each by itself.

    Raises:
        InvalidRequest: a status is unknown.
    """
    statuses = [status for part in given for status in part.split(",")]
    unknown = [status for status in statuses if status not in _STATUSES]
    if unknown:
        raise InvalidRequest(
            f"status is {unknown[0]!r}; allowed: {', '.join(_STATUSES)}.", ("query", "status")
        )
    return statuses


def read_event_id(text: str) -> int:
    """Return the number in the header Last-Event-ID.

    Raises:
        InvalidRequest: it is no number.
    """
    if not NUMBER.fullmatch(text):
        raise InvalidRequest(
            f"Last-Event-ID is {text[:20]!r}; allowed: the id of an event, a whole number.",
            ("header", "last-event-id"),
        )
    return int(text)


# The readers' errors pass through FastAPI, so answers to wrong values stay in Cog's form.
_Statuses = Annotated[
    list[Status],
    BeforeValidator(_read_statuses),
    Query(alias="status", default_factory=list, description="Only these."),
]
_LastEventId = Annotated[
    int,
    Interval(ge=0, le=10**15 - 1),
    BeforeValidator(read_event_id),
    Header(
        alias="Last-Event-ID",
        description="The last event that was seen; 0: from the beginning.",
    ),
]


async def _last_event_id(last_event_id: _LastEventId = 0) -> int:
    """Return the number of the last event that a reader has seen.

    Raises:
        InvalidRequest: the header is not a number.
    """
    return last_event_id


# reads the header before the id in the path
_LastEventIdDep = Annotated[int, Depends(_last_event_id)]
_LOOKS = refusals(400, 404, 409, 503)
_FOLLOWS: dict[str, Any] = {"response_class": Response, "responses": STREAM | _LOOKS}


def _link_to_cancel(noun: str) -> Responses:
    parameters = {f"{noun}_id": "$response.body#/id"}
    link = {"operationId": f"{noun}s.cancel", "parameters": parameters}
    return {200: {"links": {"cancel": link}}}


class HistoryRoutes:
    """The endpoints that read records.

    Args:
        kind: prediction or training.
    """

    def __init__(self, kind: Kind) -> None:
        self._kind: Kind = kind

    def router(self) -> APIRouter:
        """Return the routes."""
        router, noun = APIRouter(), NOUNS[self._kind]
        path, one = f"/{noun}s", f"/{noun}s/{{{noun}_id}}"
        of_page: dict[str, Any] = {
            "name": "list",
            "response_model": Page,
            "responses": refusals(404, 503),
        }
        of_one = {
            "name": "get",
            "response_model": Run,
            "responses": _link_to_cancel(noun) | _LOOKS,
        }
        of_webhooks = {"response_model": Deliveries, "responses": _LOOKS}
        of_webhook = {"response_model": Delivery, "responses": _LOOKS, "methods": ["POST"]}
        routes: tuple[tuple[str, Callable[..., Awaitable[Response]], dict[str, Any]], ...] = (
            (path, self.page, of_page),
            (one, self.show, of_one),
            (f"{one}/events", self.events, _FOLLOWS),
            (f"{one}/stream", self.stream, _FOLLOWS),
            (f"{one}/deliveries", self.deliveries, of_webhooks),
            (f"{one}/deliveries/{{delivery_id}}/redeliver", self.redeliver, of_webhook),
        )
        read: dict[str, Any] = {"methods": ["GET", "HEAD"]}
        for at, endpoint, described in routes:
            ids = [] if at == path else [ID_IN_PATH[self._kind]]
            router.add_api_route(at, endpoint, dependencies=ids, **(read | described))
        return router

    async def page(
        self,
        service: ServiceDep,
        caller: CallerDep,
        statuses: _Statuses,
        limit: Limit = 100,
        cursor: Cursor = None,
    ) -> Response:
        """Return a page of records, newest first."""
        try:
            page = await service.records.page(
                kind=self._kind,
                statuses=statuses,
                cursor=cursor,
                limit=limit,
                owner=caller.listed,
            )
        except InputError as error:
            raise NotFound(f"there is no such page: {error}.") from error
        results = [caller.view(record) for record in page.records]
        return json_response({"results": results, "next": page.next_cursor})

    async def show(self, look: LookDep) -> Response:
        """Return one record, finished or not."""
        owner = await look.owner(self._kind)
        prediction = await look.service.find_here(look.id, self._kind, owner)
        if prediction is None:

            def shown(record: Record) -> Response:
                return json_response(look.caller.view(record))

            return shown(await look.here(self._kind, instead=shown))
        body = look.caller.view(to_record(prediction))
        position = look.service.dispatchers[self._kind].waiting.place(prediction)
        return json_response(body | ({"queue_position": position} if position else {}))

    async def events(self, request: Request, after: _LastEventIdDep, look: LookDep) -> Response:
        """Stream live events, and earlier ones from `Last-Event-ID` on."""
        return EventStream(await event_portions(request, look, self._kind, after, write_numbered))

    async def stream(self, request: Request, after: _LastEventIdDep, look: LookDep) -> Response:
        """Stream the same events for Replicate's clients, under the names of its platform."""
        return EventStream(await event_portions(request, look, self._kind, after, write_translated))

    async def deliveries(self, look: LookDep) -> Response:
        """Return the run's webhooks, and the state of each."""
        found = await self._deliveries_of(look)
        return json_response({"results": [_delivery_body(delivery) for delivery in found]})

    async def redeliver(self, webhooks: WebhooksDep, look: LookDep, delivery_id: str) -> Response:
        """Send a webhook once more."""
        for each in await self._deliveries_of(look):
            if each.id == delivery_id:
                return json_response(_delivery_body(await webhooks.redeliver(each)))
        raise NotFound(f"there is no delivery {delivery_id[:80]!r} of {look.id!r}.")

    async def _deliveries_of(self, look: RecordLookup) -> list[OwedDelivery]:
        record = await look.record(self._kind)
        return await look.service.records.deliveries(look.id, self._kind, record.owner)


def _delivery_body(delivery: OwedDelivery) -> dict[str, Any]:
    names = "id event url state attempts last_status last_error created_at delivered_at"
    shown = {name: getattr(delivery, name) for name in names.split()}
    return shown | {"url": shown_url(delivery.url)}
