"""The requests and answers of the adapter routes, for the OpenAPI document."""

from dataclasses import fields
from datetime import datetime
from types import NoneType
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model
from pydantic.json_schema import SkipJsonSchema

from cog_adapt.adapter_metadata import AdapterMetadata, Moment
from cog_adapt.server.api.shapes import Responses, refusals

T = TypeVar("T")
_Maybe: TypeAlias = Annotated[T | SkipJsonSchema[None], Field(json_schema_extra={"nullable": True})]
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}


class AdapterChanges(BaseModel):
    """Changes to an adapter; fields that are not named stay."""

    model_config = ConfigDict(extra="forbid")
    name: _Maybe[str] = Field(None, description="A name used before makes its next version.")
    notes: _Maybe[str] = None
    expires_at: _Maybe[datetime] = Field(None, description="Removed then; null: never.")
    pinned: bool = Field(False, description="Never removed to make room.")
    shared: list[str] = Field([], description="Owners who may use it; `*` is everybody.")
    owner: str = Field("", description="Who has it from now on; alone, and with scope `admin`.")


def _fields_of_metadata() -> dict[str, Any]:
    """Return the fields of `AdapterMetadata`; those hidden from other owners may be absent."""
    hints = get_type_hints(AdapterMetadata, include_extras=True)
    shown: dict[str, Any] = {name: (hints[name], ...) for name in ("id", "owner")}
    for each in fields(AdapterMetadata):
        hint = hints[each.name]
        if each.name in {"pinned", "shared"}:
            shown[each.name] = (hint, each.default)
        elif each.name not in shown:
            shown[each.name] = (_Maybe[_type_of(hint)], None)  # type: ignore[misc]
    return shown


def _type_of(hint: Any) -> Any:  # noqa: ANN401 - a type
    """Return a field's type without None; a time is checked as one."""
    is_optional = NoneType in get_args(hint)
    bare = get_args(hint)[0] if is_optional else hint
    return datetime if bare == Moment else bare


_FIELDS: Any = create_model(
    "_FIELDS", __config__=ConfigDict(extra="allow"), **_fields_of_metadata()
)


class Adapter(_FIELDS):  # type: ignore[misc] # the fields are those of `AdapterMetadata`
    """An adapter's metadata; with fewer fields for an owner that it is only shared with."""


class AdapterPage(BaseModel):
    """A page of adapters, newest first, and the cursor of the next page."""

    results: list[Adapter]
    next: _Maybe[str]


class Removed(BaseModel):
    """The result of a removal, and the ids of adapters made from the removed one."""

    removed: bool
    children: list[str]


CHANGES = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": AdapterChanges.model_json_schema()}},
    }
}
UPLOAD = {
    "requestBody": {
        "required": True,
        "description": "A safetensors file of this project, diffusers or kohya, or PEFT's two "
        "files in a .zip.",
        "content": {"application/octet-stream": _BINARY},
    }
}
FILE: Responses = {
    200: {"content": {"application/octet-stream": _BINARY, "application/zip": _BINARY}}
}
_WRONG_VALUE = {"schema": {"$ref": "#/components/schemas/HTTPValidationError"}}
NO_ADAPTER: Responses = {
    422: {"description": "The file is none", "content": {"application/json": _WRONG_VALUE}}
}
_REASONS = {
    403: "It is shared with the caller, who may not change it",
    404: "There is none, or the predictor keeps no adapters",
    429: "Too many ask at once",
    500: "The predictor's adapters failed",
    503: "The model process is not ready, or the records cannot be used",
    504: "No answer in time",
    507: "No room on the disk",
}


def adapter_refusals(*codes: int) -> Responses:
    """Return the refusals of a route of adapters, for its `responses`."""
    return refusals(*codes, reasons=_REASONS)
