"""The operations that the mirror adds to Cog's, and what it adds to Cog's own."""

from typing import Any

from server import mirror_components as parts
from server.annotations import Schema
from server.document import Endpoint, reference
from server.intake import DURATION

_STATUSES = ["starting", "processing", "succeeded", "failed", "canceled"]
_JSON = "application/json"
_DESCRIPTIONS = {
    "200": "Successful Response",
    "202": "Accepted: not finished yet",
    "400": "The body is not JSON, or the id not UTF-8",
    "401": "No API key, or an unknown one",
    "403": "The API key lacks the scope",
    "404": "There is none",
    "406": "This model does not stream",
    "408": "The body came too slowly",
    "409": "The id is in use with another input, or all slots are",
    "413": "The body is too large",
    "415": "The body is not declared as JSON",
    "422": "Validation Error",
    "429": "The queue is full, or the caller too fast",
    "500": "The self-test could not be run",
    "503": "Not ready, or the records cannot be used",
    "504": "No self-test in time",
}
_REFUSALS_OF_A_RUN = ("400", "404", "406", "408", "409", "413", "415", "422", "429", "503")


def answers(component: str | None, *refusals: str, status: str = "200") -> Schema:
    """The responses of an operation: one that succeeds, and errors by their codes."""
    success = {"description": _DESCRIPTIONS[status]}
    return {status: success | (_json(component) if component else {})} | {
        code: {"description": _DESCRIPTIONS[code]} | _json(_error_component(code))
        for code in refusals
    }


def _error_component(code: str) -> str:
    return "HTTPValidationError" if code == "422" else parts.ERROR


def _json(component: str) -> Schema:
    return {"content": {_JSON: {"schema": reference(component)}}}


def _operation(summary: str, operation: str, responses: Schema, **more: Any) -> Schema:  # noqa: ANN401
    return {"summary": summary, "operationId": operation} | more | {"responses": responses}


def _header(name: str, description: str, **schema: Any) -> Schema:  # noqa: ANN401
    return {"name": name, "in": "header", "description": description, "schema": schema}


def _query(name: str, description: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "description": description, "schema": schema}


_PREFER = _header(
    "Prefer",
    "`respond-async`: answer at once. `wait=n`: after n seconds at most.",
    type="string",
    example="wait=60",
)
_CANCEL_AFTER = _header(
    "Cancel-After",
    "Cancel it after this time, such as 30s, 5m or 1h.",
    type="string",
    pattern=f"^(?:{DURATION})$",
    example="5m",
)
_LAST_EVENT_ID = _header(
    "Last-Event-ID",
    "The last event that was seen; 0: from the beginning.",
    type="integer",
    minimum=0,
    maximum=10**15 - 1,
)
_PAGING = [
    _query(
        "status",
        "Only these.",
        {"type": "array", "items": {"type": "string", "enum": _STATUSES}},
    ),
    _query("limit", "At most so many.", {"type": "integer", "minimum": 1, "maximum": 1000}),
    _query("cursor", "`next` of the page before.", {"type": "string"}),
]
RUN_HEADERS = [_PREFER, _CANCEL_AFTER]


def run_answers(endpoint: Endpoint, *, streaming: bool) -> Schema:
    """What else than 200 answers a POST, with the ways on from there."""
    found = answers(parts.RUN, *_REFUSALS_OF_A_RUN, status="202")
    found["202"]["links"] = _links(endpoint)
    found["200"] = {"links": _links(endpoint)}
    if streaming:
        found["200"] |= parts.STREAM
    return found


def cancel_answers() -> Schema:
    """What else than 200 answers a cancellation."""
    return answers(parts.NOTHING, "400", status="404")


def record_paths(endpoint: Endpoint, *, streaming: bool) -> Schema:
    """PUT, and everything that looks things up."""
    noun, kind = endpoint.noun, f"{endpoint.noun}s"
    name = f"/{kind}/{{{noun}_id}}"
    ways = [parts.id_parameter(endpoint)]
    looks = ("400", "404", "503")
    delivery = {"name": "delivery_id", "in": "path", "required": True, "schema": parts.TEXT}
    shown = answers(parts.RUN, *looks)
    shown["200"]["links"] = _link("cancel", _cancel(endpoint), endpoint)
    events = answers(None, "400", "404", "422", "503")
    events["200"] |= parts.STREAM
    return {
        f"/{kind}": {
            "get": _operation(
                f"List {kind}, newest first",
                f"list_{kind}_get",
                answers(parts.PAGE, "404", "422", "503"),
                parameters=_PAGING,
            )
        },
        name: {
            "get": _operation(
                f"Show a {noun}",
                _show(endpoint),
                shown,
                parameters=ways,
            ),
            "put": _put(endpoint, streaming=streaming),
        },
        f"{name}/events": {
            "get": _operation(
                "Follow its events, live or later",
                f"events_{kind}__{noun}_id__events_get",
                events,
                parameters=[*ways, _LAST_EVENT_ID],
            )
        },
        f"{name}/deliveries": {
            "get": _operation(
                "List the webhooks that were owed for it",
                f"deliveries_{kind}__{noun}_id__deliveries_get",
                answers(parts.DELIVERIES, *looks),
                parameters=ways,
            )
        },
        f"{name}/deliveries/{{delivery_id}}/redeliver": {
            "post": _operation(
                "Send a webhook once more",
                f"redeliver_{kind}__{noun}_id__deliveries_post",
                answers(parts.DELIVERY, *looks),
                parameters=[*ways, delivery],
            )
        },
    }


def _put(endpoint: Endpoint, *, streaming: bool) -> Schema:
    responses = answers(parts.RUN, *_REFUSALS_OF_A_RUN) | answers(parts.RUN, status="202")
    if streaming:
        responses["200"]["content"] |= parts.STREAM["content"]
    responses["200"]["headers"] = {
        "Idempotent-Replayed": {
            "description": "`true`: it had run before, and has not run again.",
            "schema": {"type": "string", "enum": ["true"]},
        }
    }
    responses["200"]["links"] = responses["202"]["links"] = _links(endpoint)
    return _operation(
        f"Run a {endpoint.noun} once: the same id again gives what is known of it",
        f"{endpoint.verb}_{endpoint.noun}s__{endpoint.noun}_id__put",
        responses,
        parameters=[parts.id_parameter(endpoint), *RUN_HEADERS],
        requestBody=_json(parts.put_component(endpoint)),
    )


def _show(endpoint: Endpoint) -> str:
    return f"show_{endpoint.noun}s__{endpoint.noun}_id__get"


def _cancel(endpoint: Endpoint) -> str:
    return f"cancel_{endpoint.noun}s__{endpoint.noun}_id__cancel_post"  # Cog's


def _links(endpoint: Endpoint) -> Schema:
    """What can be done with the id in a body; what has ended cannot be cancelled."""
    noun, name = endpoint.noun, f"{endpoint.noun}_id"
    return (
        _link("show", _show(endpoint), endpoint)
        | _link("follow", f"events_{noun}s__{name}__events_get", endpoint)
        | _link("deliveries", f"deliveries_{noun}s__{name}__deliveries_get", endpoint)
        | _link("repeat", f"{endpoint.verb}_{noun}s__{name}__put", endpoint)
    )


def _link(name: str, operation: str, endpoint: Endpoint) -> Schema:
    parameters = {f"{endpoint.noun}_id": "$response.body#/id"}
    return {name: {"operationId": operation, "parameters": parameters}}


def _text(media_type: str) -> Schema:
    answer = answers(None)
    answer["200"]["content"] = {media_type: {"schema": parts.TEXT}}
    return answer


def _any_object(*refusals: str) -> Schema:
    answer = answers(None, *refusals)
    answer["200"]["content"] = {_JSON: {"schema": parts.OBJECT}}
    return answer


_NOT_READY = {"503": {"description": "Not ready"} | _json(parts.HEALTH)}
_FAILED_TEST = {
    "503": {"description": "It failed"} | {"content": {_JSON: {"schema": parts.OBJECT}}}
}
SERVER_PATHS: Schema = {
    "/openapi.json": {"get": _operation("This document", "openapi_get", _any_object("503"))},
    "/docs": {"get": _operation("This document as a page", "docs_get", _text("text/html"))},
    "/healthz": {"get": _operation("Liveness", "healthz_get", answers(parts.ALIVE))},
    "/readyz": {
        "get": _operation("Readiness", "readyz_get", answers(parts.HEALTH) | _NOT_READY),
    },
    "/selftest": {
        "get": _operation(
            "The last report of the gradient self-test",
            "selftest_get",
            _any_object("404") | _FAILED_TEST,
        ),
        "post": _operation(
            "Run the gradient self-test again",
            "selftest_post",
            _any_object("404", "500", "504") | _FAILED_TEST,
        ),
    },
    "/metrics": {"get": _operation("Numbers for Prometheus", "metrics_get", _text("text/plain"))},
    "/shutdown": {
        "post": _operation("End the server, as SIGTERM does", "shutdown_post", _any_object())
    },
}
