"""What operations answer: one success, and refusals by their codes."""

from typing import Any

from cog_adapt.server.schema import mirror_components as parts
from cog_adapt.server.schema.document import reference
from cog_adapt.server.schema.types import Schema

JSON = "application/json"
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


def answers(component: str | None, *refusals: str, status: str = "200") -> Schema:
    """The responses of an operation.

    Args:
        component: of the body of its success; None leaves it open.
        refusals: codes.
        status: of the success.
    """
    success = {"description": _DESCRIPTIONS[status]}
    return {status: success | (json_body(component) if component else {})} | {
        code: {"description": _DESCRIPTIONS[code]} | json_body(_error_component(code))
        for code in refusals
    }


def json_body(component: str) -> Schema:
    """A body of JSON."""
    return {"content": {JSON: {"schema": reference(component)}}}


def operation(summary: str, name: str, responses: Schema, **more: Any) -> Schema:  # noqa: ANN401
    """An operation; `name` is its operationId."""
    return {"summary": summary, "operationId": name} | more | {"responses": responses}


def _error_component(code: str) -> str:
    return "HTTPValidationError" if code == "422" else parts.ERROR
