"""Writes the OpenAPI document of the predictor in this folder, as `cog build` would.

coglet reads it from `.cog/openapi_schema.json`. Write that file with

    python -m cog_adapt.server.command.openapi --output .cog/openapi_schema.json

which finds the predictor through COG_PREDICT_TYPE_STUB and COG_TRAIN_TYPE_STUB, else through
`cog.yaml`. All paths are relative to the working directory.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from cog_adapt.server.cogfile import read_cogfile
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.schema.loader import load_reference
from cog_adapt.server.schema.openapi import openapi_schema


def find_references(environment: Mapping[str, str], folder: Path) -> dict[Kind, str]:
    """Return the references to describe: from the environment, else from `cog.yaml`.

    Raises:
        ConfigError: `cog.yaml` is wrong, or neither names a reference.
    """
    predict = environment.get("COG_PREDICT_TYPE_STUB")
    train = environment.get("COG_TRAIN_TYPE_STUB")
    path = folder / "cog.yaml"
    if path.exists() and not (predict and train):
        cogfile = read_cogfile(path)
        predict, train = predict or cogfile.predict_reference, train or cogfile.train
    named: dict[Kind, str | None] = {"predict": predict, "train": train}
    references = {kind: reference for kind, reference in named.items() if reference}
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
    temporary.chmod(0o644)  # a temporary file is private, but coglet may run as another user
    temporary.replace(path)


def write_document(output: Path | None) -> None:
    """Write the document of this folder's predictor to a file or to standard output.

    Raises:
        SystemExit: nothing can be described; the message has the reason.
    """
    try:
        references = find_references(os.environ, Path.cwd())
        # a predictor's prints must not become part of the document
        with contextlib.redirect_stdout(sys.stderr):
            targets = {kind: load_reference(name) for kind, name in references.items()}
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
        prog="python -m cog_adapt.server.command.openapi", description=main.__doc__
    )
    parser.add_argument("--output", type=Path, help="a file; without it, standard output")
    write_document(parser.parse_args(arguments).output)


if __name__ == "__main__":
    main()
