"""The parts of the OpenAPI document that are the same for every predictor.

This module knows no Python signature: it receives the schemas of inputs and outputs.
"""

from dataclasses import dataclass
from typing import Any

from cog_adapt.server.schema.types import Schema, title


@dataclass(frozen=True)
class Endpoint:
    """An endpoint that runs something: its words in the document.

    Attributes:
        verb: of its action.
        noun: of its result.
        prefix: of the components that hold its input and output.
    """

    verb: str
    noun: str
    prefix: str

    @property
    def input(self) -> str:
        """The name of the OpenAPI component for the inputs."""
        return f"{self.prefix}Input"

    @property
    def output(self) -> str:
        """The component of the output."""
        return f"{self.prefix}Output"

    @property
    def request(self) -> str:
        """The component of a request's body."""
        return f"{self.noun.title()}Request"

    @property
    def response(self) -> str:
        """The component of a response's body."""
        return f"{self.noun.title()}Response"


PREDICTIONS = Endpoint("predict", "prediction", "")
TRAININGS = Endpoint("train", "training", "Training")


def reference(component: str) -> Schema:
    """Make a schema that refers to a component."""
    return {"$ref": f"#/components/schemas/{component}"}


def document(version: str, paths: Schema, components: Schema) -> dict[str, Any]:
    """Make the whole document, with the components of every server."""
    return {
        "openapi": "3.0.2",
        "info": {"title": "Cog", "version": version},
        "paths": {
            "/": {"get": _get("Root", "root__get")},
            "/health-check": {"get": _get("Healthcheck", "healthcheck_health_check_get")},
        }
        | paths,
        "components": {"schemas": components | SHARED_COMPONENTS},
    }


def endpoint_paths(endpoint: Endpoint, *, streaming: bool) -> Schema:
    """Make the paths of an endpoint: run, and cancel."""
    noun = endpoint.noun
    run = {
        "summary": endpoint.verb.title(),
        "description": f"Run a single {noun} on the model",
        "operationId": f"{endpoint.verb}_{noun}s_post",
        "requestBody": _body(reference(endpoint.request)),
        "responses": _responses(reference(endpoint.response)),
    } | ({"x-cog-streaming": True} if streaming else {})
    name = f"{noun}_id"
    cancel = {
        "summary": "Cancel",
        "operationId": f"cancel_{noun}s__{name}__cancel_post",
        "parameters": [{"required": True, "schema": _text(name), "name": name, "in": "path"}],
        "responses": _responses({}),
    }
    return {f"/{noun}s": {"post": run}, f"/{noun}s/{{{name}}}/cancel": {"post": cancel}}


def endpoint_components(endpoint: Endpoint, inputs: Schema, output: Schema) -> Schema:
    """Make the components of an endpoint: input, output, request and response."""
    request = {"id": _text("id"), "input": reference(endpoint.input)}
    times = ("created_at", "started_at", "completed_at")
    response = {
        "input": reference(endpoint.input),
        "output": reference(endpoint.output),
        **{name: _text(name) for name in ("id", "version", "status", "error", "logs")},
        **{name: _text(name) | {"format": "date-time"} for name in times},
        "metrics": {"title": "Metrics", "type": "object"},
    }
    return {
        endpoint.input: {"title": endpoint.input} | inputs,
        endpoint.output: output,
        endpoint.request: _object(endpoint.request, request),
        endpoint.response: _object(endpoint.response, response),
    }


def _text(name: str) -> Schema:
    return {"title": title(name), "type": "string"}


def _object(name: str, properties: Schema) -> Schema:
    return {"title": name, "type": "object", "properties": properties}


def _body(schema: Schema) -> Schema:
    return {"content": {"application/json": {"schema": schema}}}


def _responses(schema: Schema) -> Schema:
    return {
        "200": {"description": "Successful Response"} | _body(schema),
        "422": {"description": "Validation Error"} | _body(reference("HTTPValidationError")),
    }


def _get(summary: str, operation: str) -> Schema:
    success = {"200": _responses({})["200"]}
    return {"summary": summary, "operationId": operation, "responses": success}


_LOCATION = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
SHARED_COMPONENTS: Schema = {
    "Status": {
        "title": "Status",
        "description": "An enumeration.",
        "enum": ["starting", "processing", "succeeded", "canceled", "failed"],
        "type": "string",
    },
    "HTTPValidationError": _object(
        "HTTPValidationError",
        {"detail": {"title": "Detail", "type": "array", "items": reference("ValidationError")}},
    ),
    "ValidationError": _object(
        "ValidationError",
        {
            "loc": {"title": "Location", "type": "array", "items": _LOCATION},
            "msg": _text("message"),
            "type": _text("error_type"),
        },
    )
    | {"required": ["loc", "msg", "type"]},
}
