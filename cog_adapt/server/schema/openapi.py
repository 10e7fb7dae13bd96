"""The OpenAPI document that `cog build` bundles, made from the Python signatures.

coglet validates inputs by it and serves it unchanged.
"""

from collections.abc import Mapping
from typing import Any

import cog

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.schema.document import (
    PREDICTIONS,
    SHARED_COMPONENTS,
    TRAININGS,
    Endpoint,
    document,
    endpoint_components,
    endpoint_paths,
)
from cog_adapt.server.schema.loader import (
    Handler,
    Target,
    find_handler,
    is_streaming,
)
from cog_adapt.server.schema.outputs import output_schema
from cog_adapt.server.schema.signatures import read_inputs, type_hints
from cog_adapt.server.schema.types import Schema

_ENDPOINTS: Mapping[Kind, Endpoint] = {"predict": PREDICTIONS, "train": TRAININGS}


def openapi_schema(predict: Target | None, train: Target | None = None) -> dict[str, Any]:
    """Make the OpenAPI document of a predictor and perhaps a training function.

    Args:
        predict: a class with run() or predict(), or a function; None if there is only training.
        train: a function, or a class with train().

    Raises:
        ConfigError: both are missing, or Cog does not accept a signature.
    """
    targets: dict[Kind, Target | None] = {"predict": predict, "train": train}
    handlers = {kind: find_handler(target, kind) for kind, target in targets.items() if target}
    if not handlers:
        raise ConfigError("there is neither a predictor nor a training function; give one.")
    paths: Schema = {}
    components: Schema = {}
    for kind, handler in handlers.items():
        streaming = kind == "predict" and is_streaming(handler)
        paths |= endpoint_paths(_ENDPOINTS[kind], streaming=streaming)
        # A name that both use (for choices) stays with the predictor, as in Cog.
        components = _components(_ENDPOINTS[kind], handler) | components
    return document(cog.__version__, paths, components)


def _components(endpoint: Endpoint, handler: Handler) -> Schema:
    inputs = read_inputs(handler)
    components = endpoint_components(endpoint, inputs.schema, _output(handler))
    for name in inputs.enumerations:
        if name in components | SHARED_COMPONENTS:
            raise ConfigError(
                f"input {name!r} of {handler.name} has choices and the name of a component of "
                "the OpenAPI document; rename it."
            )
    return components | inputs.enumerations


def _output(handler: Handler) -> Schema:
    hints = type_hints(handler)
    if "return" not in hints:
        raise ConfigError(f"{handler.name} has no return type; annotate it.")
    try:
        return output_schema(hints["return"])
    except ConfigError as error:
        raise ConfigError(f"return type of {handler.name}: {error}") from error
