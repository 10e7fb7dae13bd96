"""The schema of an input from its annotation, as `cog build` writes it.

Inputs are flat: a scalar, a list of scalars, or a union of those, each perhaps `| None`.
"""

from typing import get_args, get_origin

import typing_extensions

from cog_adapt.server.schema.types import (
    OBJECT,
    SCALAR_NAMES,
    Schema,
    is_list,
    plain,
    refusal,
    scalar_schema,
    union_members,
)

INPUT_TYPES = f"{SCALAR_NAMES}, list[one of these], a union of these, and each with | None"
INSTEAD_OF_NESTED = (
    'list[dict], with an object for each row such as {"values": [0.5, 1.0]}, or str, for the whole '
    "as a text of JSON (list[Any] too has objects as items)"
)


def input_schema(annotation: object) -> tuple[Schema, bool]:
    """Return the schema of an input's type, and whether the type allows None.

    Raises:
        ConfigError: Cog has no such input type.
    """
    members, nullable = union_members(plain(annotation))
    variants = [_flat_schema(member) for member in members]
    if len(variants) == 1:
        return variants[0], nullable
    if any("format" in item_schema(variant) for variant in variants):
        raise refusal(annotation, "an input", "cog.Path, cog.File and cog.Secret outside a union")
    prefix = {"nullable": True} if nullable else {}
    return {"anyOf": [variant | prefix for variant in variants]}, nullable


def item_schema(schema: Schema) -> Schema:
    """Return the schema of a list's items, or the schema itself if it is not a list's."""
    item: Schema = schema.get("items", schema)
    return item


def _flat_schema(annotation: object) -> Schema:
    if not is_list(annotation):
        return _scalar_schema(annotation)
    if not get_args(annotation):
        raise refusal(annotation, "an input", "list[str] and the like, which say of what")
    item = plain(get_args(annotation)[0])
    if is_list(item):
        raise refusal(annotation, "an input", INSTEAD_OF_NESTED)
    return {"type": "array", "items": _scalar_schema(item)}


def _scalar_schema(annotation: object) -> Schema:
    schema = scalar_schema(annotation)
    if schema is not None:
        return schema
    if get_origin(annotation) is dict or typing_extensions.is_typeddict(annotation):
        return dict(OBJECT)
    raise refusal(annotation, "an input", INPUT_TYPES)
