"""The OpenAPI document of the shipped doors: one line a path, parameter, answer and field."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from tests.contract_snapshot.shapes import without_twins

_PROSE = {"title", "description", "summary", "example", "examples"}


def openapi(whole: Mapping[str, Any]) -> list[str]:
    """Return the lines of a document, without its texts for readers."""
    lines: set[str] = set()
    for path, methods in whole["paths"].items():
        for method, operation in methods.items():
            lines.update(_operation(f"{path} {method.upper()}", operation))
    for name, schema in whole["components"]["schemas"].items():
        lines.update(_schema(name, schema))
    return without_twins(lines)


def _operation(title: str, operation: Mapping[str, Any]) -> Iterator[str]:
    parameters = [each for each in operation.get("parameters", ()) if each["in"] != "path"]
    if parameters:
        yield f"{title} parameters {'; '.join(sorted(map(_parameter, parameters)))}"
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"{title} body {kind}: {_line(content['schema'])}"
    statuses: dict[str, list[str]] = defaultdict(list)
    for status, answer in operation["responses"].items():
        contents = answer.get("content", {}) or {"no body": {}}
        for kind, content in contents.items():
            statuses[f"{kind} {_line(content.get('schema', {}))}"].append(status)
    told = sorted(f"{' '.join(those)} {shown}" for shown, those in statuses.items())
    yield f"{title} answers {'; '.join(told)}"


def _parameter(parameter: Mapping[str, Any]) -> str:
    is_needed = " required" if parameter.get("required") else ""
    return f"{parameter['in']} {parameter['name']}{is_needed} {_line(parameter['schema'])}"


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[str]:
    fields = schema.get("properties", {})
    rest = {key: value for key, value in schema.items() if key not in ("properties", "required")}
    if not fields or _bare(rest) != {"type": "object"}:
        yield f"{name} = {_line(rest)}"
    for field, inner in fields.items():
        is_needed = " required" if field in schema.get("required", ()) else ""
        yield f"{name}.{field}{is_needed}: {_line(inner)}"


def _line(schema: object) -> str:
    return json.dumps(_bare(schema), sort_keys=True, ensure_ascii=False).replace('"', "'")


def _bare(schema: object) -> object:
    """Return a schema without texts; a field that is called like one stays."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _bare(inner)
        for name, inner in schema.items()
        if name not in _PROSE or isinstance(inner, dict)
    }
