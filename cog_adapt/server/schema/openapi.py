"""The OpenAPI document that `cog build` bundles, made from the Python signatures.

coglet validates inputs by it and serves it unchanged; it reads it from
`.cog/openapi_schema.json`. Write that file with

    python -m cog_adapt.server.schema.openapi --output .cog/openapi_schema.json

which takes what to describe from COG_PREDICT_TYPE_STUB and COG_TRAIN_TYPE_STUB, else from
`cog.yaml`, and everything as seen from the working directory.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cog

from cog_adapt.server.cogfile import read_cogfile
from cog_adapt.server.errors import ConfigError
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
    Mode,
    Target,
    find_handler,
    is_streaming,
    load_reference,
)
from cog_adapt.server.schema.outputs import output_schema
from cog_adapt.server.schema.signatures import read_inputs, type_hints
from cog_adapt.server.schema.types import Schema

_ENDPOINTS: Mapping[Mode, Endpoint] = {"predict": PREDICTIONS, "train": TRAININGS}


def openapi_schema(predict: Target | None, train: Target | None = None) -> dict[str, Any]:
    """The OpenAPI document of a predictor and perhaps a training function.

    Args:
        predict: a class with run() or predict(), or a function; None for training alone.
        train: a function, or a class with train().

    Raises:
        ConfigError: there is nothing to describe, or a signature that Cog does not take.
    """
    targets: dict[Mode, Target | None] = {"predict": predict, "train": train}
    handlers = {mode: find_handler(target, mode) for mode, target in targets.items() if target}
    if not handlers:
        raise ConfigError("there is neither a predictor nor a training function; give one.")
    paths: Schema = {}
    components: Schema = {}
    for mode, handler in handlers.items():
        streaming = mode == "predict" and is_streaming(handler)
        paths |= endpoint_paths(_ENDPOINTS[mode], streaming=streaming)
        # A name that both use (for choices) stays with the predictor, as in Cog.
        components = _components(_ENDPOINTS[mode], handler) | components
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


def find_references(environment: Mapping[str, str], folder: Path) -> dict[Mode, str]:
    """What to describe: from the environment, and what that does not name from `cog.yaml`.

    Raises:
        ConfigError: `cog.yaml` is wrong, or nothing is named.
    """
    predict = environment.get("COG_PREDICT_TYPE_STUB")
    train = environment.get("COG_TRAIN_TYPE_STUB")
    path = folder / "cog.yaml"
    if path.exists() and not (predict and train):
        cogfile = read_cogfile(path)
        predict, train = predict or cogfile.predict_reference, train or cogfile.train
    named: dict[Mode, str | None] = {"predict": predict, "train": train}
    references = {mode: reference for mode, reference in named.items() if reference}
    if not references:
        raise ConfigError(
            f"nothing to describe: set COG_PREDICT_TYPE_STUB, or run in {path}, to FILE.py:NAME."
        )
    return references


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader finds the old text or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f"{path.name}.", delete=False
    ) as file:
        temporary = Path(file.name)
        file.write(text)
    temporary.chmod(0o644)  # a temporary file is its owner's alone; coglet may run as another user
    temporary.replace(path)


def write_document(output: Path | None) -> None:
    """Describe what this folder serves, in a file, or on standard output.

    Raises:
        SystemExit: nothing can be described; with the reason.
    """
    try:
        references = find_references(os.environ, Path.cwd())
        with contextlib.redirect_stdout(sys.stderr):  # what a predictor prints is not the document
            targets = {mode: load_reference(name) for mode, name in references.items()}
        schema = openapi_schema(targets.get("predict"), targets.get("train"))
    except ConfigError as error:
        raise SystemExit(f"error: {error}") from error
    text = json.dumps(schema, indent=2, allow_nan=False) + "\n"
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the document, or print it."""
    parser = argparse.ArgumentParser(
        prog="python -m cog_adapt.server.schema.openapi", description=main.__doc__
    )
    parser.add_argument("--output", type=Path, help="a file; without it, standard output")
    write_document(parser.parse_args(arguments).output)


if __name__ == "__main__":
    main()
