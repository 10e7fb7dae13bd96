"""Null in the schemas of own routes, as OpenAPI 3.0 has it: it knows no type `null`."""

from typing import Any

_NULL = {"type": "null"}


def with_nullable(value: Any) -> Any:  # noqa: ANN401 - any part of a document
    """Return a document in which `nullable` stands for each alternative of the type `null`."""
    if isinstance(value, list):
        return [with_nullable(part) for part in value]
    if not isinstance(value, dict):
        return value
    rest = {name: with_nullable(part) for name, part in value.items() if name != "anyOf"}
    variants = [with_nullable(part) for part in value.get("anyOf", ()) if part != _NULL]
    if _NULL in value.get("anyOf", ()):
        variants = [_nullable(variant) for variant in variants]
    if len(variants) == 1:
        return variants[0] | rest
    return rest | ({"anyOf": variants} if variants else {})


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that allows null too; beside `$ref` no other field counts."""
    return (
        {"allOf": [schema], "nullable": True} if "$ref" in schema else schema | {"nullable": True}
    )
