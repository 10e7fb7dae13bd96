"""Reads the predictor's own example requests, which the playground offers."""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from cog_adapt.server.errors import ExamplesError
from cog_adapt.server.protocol import Kind

FILE = Path("examples/requests.json")  # in the predictor's folder, like cog.yaml
_MOST_BYTES = 2**20


class ExampleRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An example request to the predictor.

    Attributes:
        name: for the button.
        input: whole; it refers to no file.
        kind: of the run.
        description: of the example's purpose.
    """

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    input: dict[str, Any]
    kind: Kind = "predict"
    description: Annotated[str, msgspec.Meta(max_length=1000)] = ""


_Requests = Annotated[list[ExampleRequest], msgspec.Meta(max_length=100)]
_decoder = msgspec.json.Decoder(_Requests)


def read_example_requests(file: Path) -> list[ExampleRequest]:
    """Read a file; empty if there is no such file.

    Raises:
        ExamplesError: the file is too large, or is no list of requests.
    """
    if not file.is_file():
        return []
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise ExamplesError(f"{file} has more than {_MOST_BYTES} bytes. Shorten it.")
        return _decoder.decode(text)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ExamplesError(f"{file} holds no example requests: {error}. Correct it.") from error
