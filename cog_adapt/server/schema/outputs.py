"""The schema of an output from its annotation, as `cog build` writes it.

Outputs nest: lists, dicts, iterators and classes of fields, one inside the other.
"""

import collections.abc
import dataclasses
import inspect
from typing import Any, get_args, get_origin

import cog
import pydantic
import typing_extensions

from cog_adapt.server.schema.types import (
    OBJECT,
    SCALAR_NAMES,
    Schema,
    is_list,
    plain,
    refusal,
    scalar_schema,
    title,
    union_members,
)

OUTPUT_TYPES = (
    f"{SCALAR_NAMES}, list[…], dict[str, …], Iterator[…], AsyncIterator[…], "
    "ConcatenateIterator[str], AsyncConcatenateIterator[str], and classes of fields: "
    "cog.BaseModel, pydantic.BaseModel, dataclass, TypedDict (whose fields may be … | None)"
)
_ITERATORS = (collections.abc.Iterator, collections.abc.AsyncIterator)
_CONCATENATED = (cog.ConcatenateIterator, cog.AsyncConcatenateIterator)


def output_schema(annotation: object) -> Schema:
    """Return the schema of a function's result.

    Raises:
        ConfigError: Cog has no such output type; it has no unions, such as `… | None`.
    """
    return {"title": "Output"} | _nested_schema(annotation, ())


def _nested_schema(annotation: object, inside: tuple[object, ...]) -> Schema:
    annotation = plain(annotation)
    origin, parts = get_origin(annotation), get_args(annotation)
    if (scalar := scalar_schema(annotation)) is not None:
        return scalar
    if is_list(annotation):
        return {"type": "array", "items": _nested_schema(parts[0] if parts else Any, inside)}
    if origin is dict:
        return OBJECT | {"additionalProperties": _nested_schema(parts[1], inside)}
    if origin in _ITERATORS:
        items = _nested_schema(parts[0], inside)
        return {"type": "array", "items": items, "x-cog-array-type": "iterator"}
    if origin in _CONCATENATED and parts == (str,):
        keywords = {"x-cog-array-type": "iterator", "x-cog-array-display": "concatenate"}
        return {"type": "array", "items": {"type": "string"}} | keywords
    return _fields_schema(annotation, inside)


def _fields_schema(owner: object, inside: tuple[object, ...]) -> Schema:
    if owner in inside:
        return dict(OBJECT)  # a class that contains itself would never end
    needed = _fields(owner)
    hints = typing_extensions.get_type_hints(owner, include_extras=True)
    properties = {name: _field_schema(name, hints[name], (*inside, owner)) for name in needed}
    required = [name for name in needed if needed[name] and "nullable" not in properties[name]]
    return OBJECT | {"properties": properties} | ({"required": required} if required else {})


def _field_schema(name: str, annotation: object, inside: tuple[object, ...]) -> Schema:
    if get_origin(annotation) in (typing_extensions.Required, typing_extensions.NotRequired):
        annotation = get_args(annotation)[0]
    members, nullable = union_members(plain(annotation))
    if len(members) != 1:
        raise refusal(annotation, f"field {name!r} of an output", OUTPUT_TYPES)
    schema = _nested_schema(members[0], inside) | {"title": title(name)}
    return schema | {"nullable": True} if nullable else schema


def _fields(owner: object) -> dict[str, bool]:
    """Return the fields of a class in their order, and whether each lacks a default."""
    if typing_extensions.is_typeddict(owner):
        hints = typing_extensions.get_type_hints(owner)
        return {name: name in getattr(owner, "__required_keys__", ()) for name in hints}
    if inspect.isclass(owner) and issubclass(owner, pydantic.BaseModel):
        return {name: field.is_required() for name, field in owner.model_fields.items()}
    if inspect.isclass(owner) and dataclasses.is_dataclass(owner):
        return {field.name: not _has_default(field) for field in dataclasses.fields(owner)}
    raise refusal(owner, "an output", OUTPUT_TYPES)


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    given = (field.default, field.default_factory)
    return any(value is not dataclasses.MISSING for value in given)
