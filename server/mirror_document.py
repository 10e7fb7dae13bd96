"""The OpenAPI document that the mirror serves: Cog's, and what Cog does not list.

Nothing that Cog says is lost: its components stay as they are, and its operations gain answers and
headers. Only the body of a POST is another component, Cog's with the bounds that are checked.
"""

from typing import Any

from server.annotations import Schema
from server.document import PREDICTIONS, TRAININGS, Endpoint, reference
from server.mirror_components import COMPONENTS, post_component, request_components
from server.mirror_paths import (
    RUN_HEADERS,
    SERVER_PATHS,
    cancel_answers,
    record_paths,
    run_answers,
)


def mirror_document(document: Schema, *, strict: bool) -> dict[str, Any]:
    """The document of a predictor with the mirror's own endpoints.

    Args:
        document: as `cog build` bundles it; it is left as it is.
        strict: nothing is added.
    """
    if strict:
        return document
    extended = document
    for endpoint in (PREDICTIONS, TRAININGS):
        if f"/{endpoint.noun}s" in document["paths"]:
            extended = _joined(_exact_body(endpoint), extended)
            extended = _joined(extended, _additions(endpoint, document))
    return _joined(extended, {"paths": SERVER_PATHS, "components": {"schemas": COMPONENTS}})


def _additions(endpoint: Endpoint, document: Schema) -> Schema:
    """What an endpoint can do beyond Cog's."""
    run, cancel = f"/{endpoint.noun}s", f"/{endpoint.noun}s/{{{endpoint.noun}_id}}/cancel"
    streaming = bool(document["paths"][run]["post"].get("x-cog-streaming"))
    headers_and_answers = {
        "parameters": RUN_HEADERS,
        "responses": run_answers(endpoint, streaming=streaming),
    }
    own = {run: {"post": headers_and_answers}, cancel: {"post": {"responses": cancel_answers()}}}
    bodies = request_components(endpoint, document["components"]["schemas"])
    return {
        "paths": _joined(own, record_paths(endpoint, streaming=streaming)),
        "components": {"schemas": bodies},
    }


def _exact_body(endpoint: Endpoint) -> Schema:
    content = {"application/json": {"schema": reference(post_component(endpoint))}}
    return {"paths": {f"/{endpoint.noun}s": {"post": {"requestBody": {"content": content}}}}}


def _joined(first: Schema, second: Schema) -> dict[str, Any]:
    """Both; where both have a value that is no object, the first's."""
    both = second | first
    for name in first.keys() & second.keys():
        if isinstance(first[name], dict) and isinstance(second[name], dict):
            both[name] = _joined(first[name], second[name])
    return both
