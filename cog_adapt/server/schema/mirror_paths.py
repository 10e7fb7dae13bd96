"""The operations on predictions and trainings that Cog does not list, and more of Cog's own."""

from dataclasses import dataclass
from typing import Any

from cog_adapt.server.schema import mirror_components as parts
from cog_adapt.server.schema.document import Endpoint
from cog_adapt.server.schema.mirror_answers import answers, json_body, operation
from cog_adapt.server.schema.types import Schema

_STATUSES = ["starting", "processing", "succeeded", "failed", "canceled"]
_REFUSALS_OF_A_RUN = ("400", "404", "406", "408", "409", "413", "415", "422", "429", "503")
_REFUSALS_OF_A_LOOK = ("400", "404", "503")


@dataclass(frozen=True)
class Service:
    """An endpoint as one predictor has it.

    Attributes:
        endpoint: for predictions or trainings.
        streams: whether its answer may be a stream.
        needs_input: whether there is an input without a default.
    """

    endpoint: Endpoint
    streams: bool
    needs_input: bool

    @property
    def path(self) -> str:
        """Where it runs."""
        return f"/{self.endpoint.noun}s"

    @property
    def path_of_one(self) -> str:
        """Where one of them is."""
        return f"{self.path}/{{{self.endpoint.noun}_id}}"


def _header(name: str, description: str, **schema: Any) -> Schema:  # noqa: ANN401
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _query(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema}


_LAST_EVENT_ID = _header(
    "Last-Event-ID",
    "The last event that was seen; 0: from the beginning.",
    type="integer",
    minimum=0,
    maximum=10**15 - 1,
)
_PAGING = [
    _query("status", "Only these.", {"type": "array", "items": {"enum": _STATUSES} | parts.TEXT}),
    _query("limit", "At most so many.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    _query("cursor", "`next` of the page before.", parts.TEXT),
]
RUN_HEADERS = [
    _header(
        "Prefer",
        "`respond-async`: answer at once. `wait=n`: after n seconds at most.",
        type="string",
        example="wait=60",
    ),
    _header(
        "Cancel-After",
        "Cancel it after this time, such as 30s, 5m or 1h.",
        type="string",
        pattern=f"^(?:{parts.DURATION})$",
        example="5m",
    ),
]


def more_of_cogs_paths(service: Service) -> Schema:
    """What Cog's operations answer beside 200 and 422, and what headers they heed."""
    found = answers(parts.RUN, *_REFUSALS_OF_A_RUN, status="202")
    found["200"] = dict(parts.STREAM) if service.streams else {}
    found["200"]["links"] = found["202"]["links"] = _links(service.endpoint)
    post = {"parameters": RUN_HEADERS, "responses": found} | _need(service)
    cancel = {"responses": answers(parts.NOTHING, "400", status="404")}
    return {service.path: {"post": post}, f"{service.path_of_one}/cancel": {"post": cancel}}


def further_paths(service: Service) -> Schema:
    """PUT, and everything that looks things up."""
    endpoint, one = service.endpoint, service.path_of_one
    return {
        service.path: {"get": _list(endpoint)},
        one: {"get": _show(endpoint), "put": _put(service)},
        f"{one}/events": {"get": _events(endpoint, "events", "live or later")},
        f"{one}/stream": {"get": _events(endpoint, "stream", "as Replicate's clients know them")},
        f"{one}/deliveries": {"get": _deliveries(endpoint)},
        f"{one}/deliveries/{{delivery_id}}/redeliver": {"post": _redeliver(endpoint)},
    }


def _need(service: Service) -> Schema:
    return {"requestBody": {"required": True}} if service.needs_input else {}


def _list(endpoint: Endpoint) -> Schema:
    found = answers(parts.PAGE, "404", "422", "503")
    summary = f"List {endpoint.noun}s, newest first"
    return operation(summary, f"list_{endpoint.noun}s_get", found, parameters=_PAGING)


def _show(endpoint: Endpoint) -> Schema:
    found = answers(parts.RUN, *_REFUSALS_OF_A_LOOK)
    # What has ended cannot be cancelled: there is no such link from a POST.
    found["200"]["links"] = {"cancel": _link(endpoint, "cancel", "post")}
    return _of_one(endpoint, f"Show a {endpoint.noun}", _name(endpoint, "show", "get"), found)


def _put(service: Service) -> Schema:
    endpoint = service.endpoint
    found = answers(parts.RUN, *_REFUSALS_OF_A_RUN) | answers(parts.RUN, status="202")
    if service.streams:
        found["200"]["content"] |= parts.STREAM["content"]
    found["200"]["headers"] = {
        "Idempotent-Replayed": {
            "description": "`true`: it had run before, and has not run again.",
            "schema": {"type": "string", "enum": ["true"]},
        }
    }
    found["200"]["links"] = found["202"]["links"] = _links(endpoint)
    summary = f"Run a {endpoint.noun} once: the same id again gives what is known of it"
    put = _of_one(endpoint, summary, _name(endpoint, "once", "put"), found, RUN_HEADERS)
    body = json_body(parts.put_component(endpoint))
    return put | {"requestBody": _need(service).get("requestBody", {}) | body}


def _events(endpoint: Endpoint, action: str, how: str) -> Schema:
    found = answers(None, "422", *_REFUSALS_OF_A_LOOK)
    found["200"] |= parts.STREAM
    name = _name(endpoint, action, "get")
    return _of_one(endpoint, f"Follow its events, {how}", name, found, [_LAST_EVENT_ID])


def _deliveries(endpoint: Endpoint) -> Schema:
    found = answers(parts.DELIVERIES, *_REFUSALS_OF_A_LOOK)
    summary = "List the webhooks that were owed for it"
    return _of_one(endpoint, summary, _name(endpoint, "deliveries", "get"), found)


def _redeliver(endpoint: Endpoint) -> Schema:
    found = answers(parts.DELIVERY, *_REFUSALS_OF_A_LOOK)
    which = {"name": "delivery_id", "in": "path", "required": True, "schema": parts.TEXT}
    name = _name(endpoint, "redeliver", "post")
    return _of_one(endpoint, "Send a webhook once more", name, found, [which])


def _of_one(
    endpoint: Endpoint, summary: str, name: str, found: Schema, more: list[Schema] | None = None
) -> Schema:
    parameters = [parts.id_parameter(endpoint), *(more or [])]
    return operation(summary, name, found, parameters=parameters)


def _name(endpoint: Endpoint, verb: str, method: str) -> str:
    """An operationId in Cog's style."""
    return f"{verb}_{endpoint.noun}s__{endpoint.noun}_id__{verb}_{method}"


def _links(endpoint: Endpoint) -> Schema:
    """What can be done with the id in a body."""
    ways = {"show": "get", "events": "get", "deliveries": "get", "once": "put"}
    return {verb: _link(endpoint, verb, method) for verb, method in ways.items()}


def _link(endpoint: Endpoint, verb: str, method: str) -> Schema:
    known = {f"{endpoint.noun}_id": "$response.body#/id"}
    return {"operationId": _name(endpoint, verb, method), "parameters": known}
