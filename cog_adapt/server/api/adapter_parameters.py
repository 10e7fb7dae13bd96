"""The parameters of the adapter routes: the asker, the adapter, and the form."""

from typing import Annotated, Literal
from urllib.parse import unquote

from fastapi import Depends, Path, Query
from pydantic import BeforeValidator
from pydantic.json_schema import SkipJsonSchema
from starlette.requests import Request

from cog_adapt.server.adapter_messages import AdapterFormat
from cog_adapt.server.errors import InvalidPath, InvalidRequest

FORMATS: dict[str, tuple[str, str]] = {
    "safetensors": ("application/octet-stream", "safetensors"),
    "peft": ("application/zip", "zip"),
    "diffusers": ("application/octet-stream", "safetensors"),
    "kohya": ("application/octet-stream", "safetensors"),
    "receipt": ("application/json", "receipt.json"),
}


async def _reference(request: Request, reference: Annotated[str, Path()]) -> str:
    """Return the id or name in a request's path; `%2F` in it is a slash.

    Raises:
        InvalidPath: the path is not UTF-8.
    """
    try:
        return unquote(request.path_params["reference"], errors="strict")
    except UnicodeDecodeError as error:
        raise InvalidPath("Invalid URL: Invalid UTF-8 in `reference`") from error


def _read_choice(name: str, *allowed: str) -> BeforeValidator:
    def read(value: object) -> object:
        if value is not None and value not in allowed:
            shown = str(value)[:20]
            raise InvalidRequest(
                f"{name} is {shown!r}; allowed: {', '.join(allowed)}.", ("query", name)
            )
        return value

    return BeforeValidator(read)


ReferenceDep = Annotated[str, Depends(_reference)]
_Text = str | SkipJsonSchema[None]
Owner = Annotated[_Text, Query(description="Only adapters of this owner.")]
Name = Annotated[_Text, Query(description="Only the versions of this name.")]
Method = Annotated[_Text, Query(description="Only those that this method has trained.")]
Label = Annotated[_Text, Query(description="Only those that have learnt this label.")]
Shared = Annotated[
    Literal["true", "false"] | SkipJsonSchema[None],
    _read_choice("shared", "true", "false"),
    Query(description="true: only others' that are shared with the caller; false: only own."),
]
Format = Annotated[
    AdapterFormat,
    _read_choice("format", *FORMATS),
    Query(
        description="This project's own file, PEFT's two in a .zip, a LoRA file of diffusers or "
        "kohya (of image models alone), or its receipt."
    ),
]
