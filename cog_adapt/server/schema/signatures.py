"""The schema of a function's inputs from its parameters, as `cog build` writes it."""

import inspect
import json
import re
from dataclasses import dataclass
from typing import Any

import cog
import typing_extensions

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.schema.document import reference
from cog_adapt.server.schema.inputs import input_schema, item_schema
from cog_adapt.server.schema.loader import Handler, names_default
from cog_adapt.server.schema.types import FILE, OBJECT, SECRET, Schema, title

_NUMBERS = ({"type": "integer"}, {"type": "number"})
_TEXT = ({"type": "string"},)
# Constraining arguments of `Input()`: the schema's keyword, the types it fits, and their names.
_CONSTRAINTS: dict[str, tuple[str, tuple[Schema, ...], str]] = {
    "ge": ("minimum", _NUMBERS, "int and float"),
    "le": ("maximum", _NUMBERS, "int and float"),
    "min_length": ("minLength", _TEXT, "str"),
    "max_length": ("maxLength", _TEXT, "str"),
    "regex": ("pattern", _TEXT, "str"),
    "accept": ("x-cog-accept", (FILE,), "cog.Path and cog.File"),
}
_CHOICES: tuple[tuple[Schema, type], ...] = (({"type": "integer"}, int), ({"type": "string"}, str))
# \Z, \N{…}, (?P=name) and (?(1)…), where the backslash is not itself escaped.
_PYTHON_ONLY = re.compile(r"(?<!\\)(?:\\\\)*(?P<syntax>\\Z|\\N\{|\(\?P=|\(\?\()")


@dataclass(frozen=True)
class Inputs:
    """The inputs of a function.

    Attributes:
        schema: the object of all inputs; it has no title yet.
        enumerations: for each input with choices, by its name, the schema it refers to.
    """

    schema: Schema
    enumerations: dict[str, Schema]


@dataclass(frozen=True)
class _Field:
    parameter: inspect.Parameter
    type: Schema
    nullable: bool
    has_default: bool

    @property
    def info(self) -> Any:  # noqa: ANN401 - cog.FieldInfo, which mypy does not know
        """The parameter's `Input()`; a plain default is `Input(default)`."""
        default = self.parameter.default
        if isinstance(default, cog.FieldInfo):
            return default
        return cog.FieldInfo(default=None if default is inspect.Parameter.empty else default)


def read_inputs(handler: Handler) -> Inputs:
    """Return the schema of a function's inputs.

    Raises:
        ConfigError: an input has no type or one that Cog does not accept, a constraint does not fit
            the type, or a default or a choice is no JSON value.
    """
    hints = type_hints(handler)
    properties: dict[str, Schema] = {}
    enumerations: dict[str, Schema] = {}
    required: list[str] = []
    for order, parameter in enumerate(handler.parameters):
        name = parameter.name
        try:
            field = _read_field(handler, parameter, hints.get(name))
            properties[name] = {"x-order": order} | _property(field)
            enumerations |= _enumerations(field)
        except ConfigError as error:
            raise ConfigError(f"input {name!r} of {handler.name}: {error}") from error
        if not (field.has_default or field.nullable):
            required.append(name)
    schema = OBJECT | {"properties": properties} | ({"required": required} if required else {})
    return Inputs(schema, enumerations)


def type_hints(handler: Handler) -> dict[str, Any]:
    """Return the annotations of a function, with strings resolved.

    Raises:
        ConfigError: a name in the annotations is not defined.
    """
    try:
        return typing_extensions.get_type_hints(handler.function, include_extras=True)
    except NameError as error:
        raise ConfigError(
            f"an annotation of {handler.name} cannot be resolved: {error}. "
            "Import the name at the top of the file, not only for type checkers."
        ) from error


def _read_field(handler: Handler, parameter: inspect.Parameter, annotation: object) -> _Field:
    if annotation is None:
        raise ConfigError("it has no type; annotate it.")
    schema, nullable = input_schema(annotation)
    field = _Field(
        parameter=parameter,
        type=schema,
        nullable=nullable,
        has_default=names_default(handler, parameter),
    )
    if field.info.default is None and field.has_default:
        # In Cog `int = None` means "chosen at run time", no default; `Secret = None` means "no
        # secret".
        nullable = nullable or schema == SECRET
        return _Field(parameter, schema, nullable, has_default=nullable)
    return field


def _property(field: _Field) -> Schema:
    name, info = field.parameter.name, field.info
    if info.choices:
        schema: Schema = {"allOf": [reference(name)]}
    else:
        schema = {"title": title(name)} | field.type
    if field.has_default:
        schema["default"] = _json_value("default", info.default)
    if field.nullable:
        schema["nullable"] = True
    if info.description is not None:
        schema["description"] = info.description
    if info.deprecated:
        schema["deprecated"] = True
    return schema | _constraints(field)


def _constraints(field: _Field) -> Schema:
    schema: Schema = {}
    for argument, (keyword, fitting, words) in _CONSTRAINTS.items():
        value = getattr(field.info, argument)
        if value is None:
            continue
        if item_schema(field.type) not in fitting:
            raise ConfigError(f"{argument}={value!r} does not fit its type; allowed for: {words}.")
        schema[keyword] = value
    if "pattern" in schema:
        _check_pattern(schema["pattern"])
    return schema


def _check_pattern(pattern: str) -> None:
    # If coglet cannot compile one pattern, it checks no input at all.
    foreign = _PYTHON_ONLY.search(pattern)
    if foreign:
        raise ConfigError(
            f"regex={pattern!r} has {foreign['syntax']}, which only Python knows; "
            "allowed: the syntax of JSON schema, such as $ for the end. Write it without."
        )
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigError(f"regex={pattern!r} is wrong: {error}. Correct it.") from error


def _enumerations(field: _Field) -> dict[str, Schema]:
    """Return the component of a field's choices by its name; empty if there are no choices."""
    if not field.info.choices:
        return {}
    return {field.parameter.name: _enumeration(field)}


def _enumeration(field: _Field) -> Schema:
    choices = _json_value("choices", field.info.choices)
    fitting = next((kind for schema, kind in _CHOICES if schema == field.type), None)
    if any(type(choice) is not fitting for choice in choices):
        raise ConfigError(
            f"choices={field.info.choices!r} do not fit its type; allowed: only str for str, "
            "only int for int. Change the type or the choices."
        )
    head = {"title": field.parameter.name, "description": "An enumeration.", "enum": choices}
    return head | field.type


def _json_value(argument: str, value: object) -> Any:  # noqa: ANN401 - any value of JSON
    """Return the value in its JSON form: enum members by value, tuples as lists."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{argument} is of type {type(value).__name__} and no value of JSON ({error}); "
            "use a number, a text, a bool, None, or a list or dict of these."
        ) from error
