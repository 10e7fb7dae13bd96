"""The operations about the server itself that Cog does not list."""

from cog_adapt.server.schema import mirror_components as parts
from cog_adapt.server.schema.mirror_answers import JSON, answers, json_body, operation
from cog_adapt.server.schema.types import Schema


def _text(media_type: str) -> Schema:
    answer = answers(None)
    answer["200"]["content"] = {media_type: {"schema": parts.TEXT}}
    return answer


def _any_object(*refusals: str) -> Schema:
    answer = answers(None, *refusals)
    answer["200"]["content"] = {JSON: {"schema": parts.OBJECT}}
    return answer


_NOT_READY = {"503": {"description": "Not ready"} | json_body(parts.HEALTH)}
_FAILED_TEST = {
    "503": {"description": "It failed, or the model is not ready"}
    | {"content": {JSON: {"schema": parts.OBJECT}}}
}
SERVER_PATHS: Schema = {
    "/openapi.json": {"get": operation("This document", "openapi_get", _any_object("503"))},
    "/docs": {"get": operation("This document as a page", "docs_get", _text("text/html"))},
    "/healthz": {"get": operation("Liveness", "healthz_get", answers(parts.ALIVE))},
    "/readyz": {"get": operation("Readiness", "readyz_get", answers(parts.HEALTH) | _NOT_READY)},
    "/selftest": {
        "get": operation(
            "The last report of the gradient self-test",
            "selftest_get",
            _any_object("404") | _FAILED_TEST,
        ),
        "post": operation(
            "Run the gradient self-test again",
            "selftest_post",
            _any_object("404", "500", "504") | _FAILED_TEST,
        ),
    },
    "/metrics": {"get": operation("Numbers for Prometheus", "metrics_get", _text("text/plain"))},
    "/shutdown": {
        "post": operation("End the server, as SIGTERM does", "shutdown_post", _any_object())
    },
}
