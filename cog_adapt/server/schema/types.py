"""The common part of input and output schemas: from Python annotations to JSON schema.

This module knows only types: neither parameters nor defaults.
"""

import inspect
import os
import typing
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import cog

from cog_adapt.server.errors import ConfigError

Schema = dict[str, Any]

SCALAR_NAMES = "bool, int, float, str, dict, Any, cog.Path, cog.File, cog.Secret"
OBJECT: Schema = {"type": "object"}
FILE: Schema = {"type": "string", "format": "uri"}
SECRET: Schema = {"type": "string", "format": "password", "writeOnly": True, "x-cog-secret": True}
_SCALARS: tuple[tuple[object, Schema], ...] = (
    (bool, {"type": "boolean"}),
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (str, {"type": "string"}),
    (dict, OBJECT),
    (typing.Dict, OBJECT),  # noqa: UP006 - predictors still write it
    (Any, OBJECT),
    (cog.File, FILE),
    (cog.Secret, SECRET),
)


def title(name: str) -> str:
    """Return `max_len` as "Max Len"; other letters of a word are unchanged."""
    return " ".join(word[:1].upper() + word[1:] for word in name.split("_"))


def scalar_schema(annotation: object) -> Schema | None:
    """Return the schema of a type without parts, or None for other annotations."""
    if inspect.isclass(annotation) and issubclass(annotation, os.PathLike):
        return dict(FILE)
    return next((dict(schema) for known, schema in _SCALARS if known is annotation), None)


def plain(annotation: object) -> object:
    """Return the annotation without `Annotated`; `cog.Opaque` makes it Any, or a list of Any."""
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *metadata = get_args(annotation)
    if not any(each is cog.Opaque for each in metadata):
        return plain(inner)
    members, nullable = union_members(inner)
    shape: Any = list[Any] if len(members) == 1 and is_list(members[0]) else Any
    return shape | None if nullable else shape


def union_members(annotation: object) -> tuple[list[object], bool]:
    """Return a union's members without None, and whether None is one; else the type alone."""
    if get_origin(annotation) not in (Union, UnionType):
        return [annotation], False
    members = get_args(annotation)
    return [plain(member) for member in members if member is not NoneType], NoneType in members


def is_list(annotation: object) -> bool:
    """Return whether the annotation is a list, with or without the type of its items."""
    return annotation is list or get_origin(annotation) is list


def refusal(annotation: object, use: str, allowed: str) -> ConfigError:
    """Make the error for an annotation that Cog does not accept."""
    name = annotation.__name__ if inspect.isclass(annotation) else str(annotation)
    return ConfigError(f"type {name} is not a type that Cog takes as {use}; allowed: {allowed}.")
