"""The OpenAPI document that the mirror serves: Cog's, and what Cog does not list.

Nothing that Cog says is lost: its components stay as they are, and its operations gain answers and
headers. Only the body of a POST is another component, Cog's with the bounds that are checked.
"""

from typing import Any

from cog_adapt.server.schema.document import PREDICTIONS, TRAININGS, Endpoint, reference
from cog_adapt.server.schema.mirror_components import (
    COMPONENTS,
    post_component,
    put_component,
    request_components,
)
from cog_adapt.server.schema.mirror_paths import Service, further_paths, more_of_cogs_paths
from cog_adapt.server.schema.mirror_server_paths import SERVER_PATHS
from cog_adapt.server.schema.types import Schema


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
        post = document["paths"].get(f"/{endpoint.noun}s", {}).get("post")
        if post is not None:
            components = document["components"]["schemas"]
            needs_input = bool(components[endpoint.input].get("required"))
            service = Service(endpoint, bool(post.get("x-cog-streaming")), needs_input)
            extended = _joined(_exact_body(endpoint), extended)
            extended = _joined(extended, {"paths": more_of_cogs_paths(service)})
            extended = _joined(extended, _own(service))
            extended = _joined(extended, _only_inputs_of(endpoint, components))
    return _joined(extended, {"paths": SERVER_PATHS, "components": {"schemas": COMPONENTS}})


def _own(service: Service) -> Schema:
    bodies = request_components(service.endpoint, needs_input=service.needs_input)
    return {"paths": further_paths(service), "components": {"schemas": bodies}}


def _exact_body(endpoint: Endpoint) -> Schema:
    content = {"application/json": {"schema": reference(post_component(endpoint))}}
    return {"paths": {f"/{endpoint.noun}s": {"post": {"requestBody": {"content": content}}}}}


def _only_inputs_of(endpoint: Endpoint, components: Schema) -> Schema:
    """Bodies whose inputs are those of the model; Cog's own component allows others."""
    names = components[endpoint.input].get("properties", {})
    inputs = {"properties": {name: {} for name in names}, "additionalProperties": False}
    bodies = (post_component(endpoint), put_component(endpoint))
    return {"components": {"schemas": {body: {"properties": {"input": inputs}} for body in bodies}}}


def _joined(first: Schema, second: Schema) -> dict[str, Any]:
    """Both; where both have a value that is no object, the first's."""
    both = second | first
    for name in first.keys() & second.keys():
        if isinstance(first[name], dict) and isinstance(second[name], dict):
            both[name] = _joined(first[name], second[name])
    return both
