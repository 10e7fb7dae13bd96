"""Converts `-i name=value` to the JSON of a request, by the schema of the server.

A value on the command line is text, converted to the type of its input: a number, true or false,
JSON for objects and lists, else a string. `@file` stands for the file: as a data URI where a
string is allowed, else as the text in it. Double quotes make a value literal. A flag given several
times makes a list.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cog_adapt.client.files import data_uri
from cog_adapt.server.command.schema import InputSchema
from cog_adapt.server.errors import InputError
from cog_adapt.server.schema.types import Schema
from cog_adapt.server.schema.unknown_inputs import describe_unknown
from cog_adapt.server.schema.validation import InputValidator

_SHOWN = 200  # characters of a value in a message
_TRUTH = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Value:
    """One value as written on the command line.

    Attributes:
        text: the value without quotes.
        is_literal: whether the value was quoted, so that it is a string and no `@file`.
    """

    text: str
    is_literal: bool

    @property
    def file(self) -> Path | None:
        """The path in `@file`, or None."""
        if self.is_literal or not self.text.startswith("@"):
            return None
        return Path(self.text[1:]).expanduser()


Flags = Mapping[str, Sequence[Value]]


def read_flags(flags: Sequence[str]) -> Flags:
    """Return the values of each input, in the order of the flags.

    Raises:
        InputError: a flag is not `name=value`, or names a file that cannot be read.
    """
    values: dict[str, list[Value]] = {}
    for flag in flags:
        name, equals, text = flag.partition("=")
        if not equals or not name:
            raise InputError(f"-i {flag}: allowed: name=value, such as -i text=hello.")
        values.setdefault(name, []).append(_value(name, text))
    return values


def _value(name: str, text: str) -> Value:
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    value = Value(text[1:-1], is_literal=True) if quoted else Value(text, is_literal=False)
    if value.file is not None and not value.file.is_file():
        raise InputError(
            f"-i {name}={text}: there is no file {value.file}. Correct the path; a text that "
            f"begins with @ is given in double quotes: -i '{name}=\"{text}\"'."
        )
    return value


def fit_inputs(flags: Flags, schema: InputSchema) -> dict[str, Any]:
    """Convert the values to the types of the schema.

    Raises:
        InputError: a name is unknown, or a value is not allowed; one line for each.
    """
    known = schema.properties
    problems = [describe_unknown(name, list(known)) for name in flags if name not in known]
    inputs: dict[str, Any] = {}
    for name, values in _known_flags(flags, known):
        try:
            inputs[name] = _fit(values, known[name], schema.components)
        except ValueError as error:
            problems.append(f"{name} is {_shown(values)}: {error}")
    problems += [
        f"{name} is required; give -i {name}=…" for name in schema.required if name not in flags
    ]
    validator = InputValidator(schema.document, schema.input_name, sys.maxsize)
    problems += [
        f"{problem.loc[2].replace('/', '.')}: {_cut(problem.msg)}"
        for problem in validator.problems(inputs)
        if problem.loc[2] not in schema.required or problem.loc[2] in inputs
    ]
    if problems:
        raise InputError("\n".join(problems))
    return inputs


def _known_flags(flags: Flags, known: Mapping[str, Schema]) -> list[tuple[str, Sequence[Value]]]:
    return [(name, values) for name, values in flags.items() if name in known]


def _fit(values: Sequence[Value], schema: Schema, components: Schema) -> object:
    alternatives = _alternatives(schema, components)
    lists = [one for one in alternatives if one.get("type") == "array"]
    if lists and (len(values) > 1 or len(lists) == len(alternatives)):
        return _fit_list(values, lists[0].get("items", {}), components)
    if len(values) > 1:
        raise ValueError("allowed: one value. Give the flag once.")
    reasons = []
    for alternative in alternatives:
        try:
            return _fit_one(values[0], alternative)
        except ValueError as error:
            reasons.append(str(error))
    raise ValueError(" or ".join(dict.fromkeys(reasons)))


def _fit_list(values: Sequence[Value], items: Schema, components: Schema) -> list[object]:
    if len(values) == 1 and not values[0].is_literal:
        text = values[0].text
        if values[0].file is not None and not _takes_text(_alternatives(items, components)):
            text = _text_of(values[0].file)
        try:
            whole = json.loads(text)
        except ValueError:
            whole = None
        if isinstance(whole, list):
            return whole
    return [_fit([value], items, components) for value in values]


def _alternatives(schema: Schema, components: Schema) -> list[Schema]:
    """Return the types that a schema allows; strings come last, because any text is one."""
    if "$ref" in schema:
        return _alternatives(components[schema["$ref"].rpartition("/")[2]], components)
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            found = [_alternatives(part, components) for part in schema[keyword]]
            return sorted(sum(found, []), key=lambda one: _takes_text([one]))
    return [schema]


def _takes_text(alternatives: Sequence[Schema]) -> bool:
    return any(one.get("type", "string") == "string" for one in alternatives)


def _fit_one(value: Value, schema: Schema) -> object:
    kind = schema.get("type", "string")
    if kind == "string":
        return value.text if value.file is None else _uri_of(value.file)
    if value.is_literal:
        raise ValueError(f"allowed: {kind}; leave the quotes out.")
    text = value.text if value.file is None else _text_of(value.file)
    if kind == "integer" and re.fullmatch(r"\s*[+-]?\d+\s*", text, re.ASCII):
        return int(text)
    if kind == "number":
        return _number(text)
    if kind == "boolean" and text.strip().lower() in _TRUTH:
        return _TRUTH[text.strip().lower()]
    if kind in ("object", "array"):
        return _json(text, kind)
    allowed = {"integer": "a whole number", "boolean": "true or false"}
    raise ValueError(f"allowed: {allowed.get(kind, kind)}.")


def _number(text: str) -> float:
    try:
        number = json.loads(text)
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or number - number != 0:
        raise ValueError("allowed: a number.")
    return number


def _json(text: str, kind: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"allowed: JSON of type {kind}; {error}.") from error


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"the file is no UTF-8 text: {error.reason}.") from error


def _uri_of(path: Path) -> str:
    try:
        return data_uri(path, path.read_bytes())
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from error


def _shown(values: Sequence[Value]) -> str:
    return ", ".join(_cut(repr(value.text)) for value in values)


def _cut(text: str) -> str:
    half = _SHOWN // 2
    return text if len(text) <= _SHOWN else f"{text[:half]}…{text[-half:]}"
