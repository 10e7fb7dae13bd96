"""Checks inputs by the schema of the model's signature.

jsonschema-rs is also the validator inside Cog's own server, so the verdicts and their words are the
same. Four things differ. Null is a value of nullable inputs. A pattern that it cannot compile is
checked by `re`; Cog then validates nothing at all. An input that the model does not have is refused
as a likely misspelling; Cog drops it. And an answer has at most a hundred problems, with long texts
shortened.
"""

import copy
import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
from jsonschema_rs import ValidationErrorKind

from cog_adapt.server.schema.long_lists import ShortLists, shorten_lists
from cog_adapt.server.schema.pattern_choices import choices_in_words
from cog_adapt.server.schema.problems import (
    InvalidInputs,
    Problem,
    bounded,
    files_that_are_no_urls,
    first,
    long_strings,
)
from cog_adapt.server.schema.unknown_inputs import find_unknown

Schema = dict[str, Any]
REDACTED = "**********"


class InputValidator:
    """Checks the inputs of one component of the OpenAPI document.

    Args:
        document: the OpenAPI document.
        component: `Input` or `TrainingInput`.
        most_characters: of any one string.
        takes_unknown: whether inputs that the model does not have are ignored, as in Cog.
    """

    def __init__(
        self,
        document: Schema,
        component: str,
        most_characters: int,
        *,
        takes_unknown: bool = False,
    ) -> None:
        schemas = document["components"]["schemas"]
        self._properties: Schema = schemas[component].get("properties", {})
        self._required: list[str] = schemas[component].get("required", [])
        self._most_characters = most_characters
        self._takes_unknown = takes_unknown
        self._secrets = [name for name, schema in self._properties.items() if _holds_secret(schema)]
        self._patterns: list[tuple[str, re.Pattern[str]]] = []
        self._files = [name for name, schema in self._properties.items() if _is_file(schema)]
        self._nullable = [name for name, schema in self._properties.items() if _is_nullable(schema)]
        schemas = copy.deepcopy(schemas)
        self._set_foreign_patterns_apart(schemas[component])
        schema = {"$ref": f"#/components/schemas/{component}", "components": {"schemas": schemas}}
        # formats are not checked, as in Cog
        self._validator = jsonschema_rs.Draft7Validator(schema, validate_formats=False)
        self._masking = jsonschema_rs.Draft7Validator(schema, mask=REDACTED, validate_formats=False)
        some = {
            "properties": schemas[component].get("properties", {}),
            "components": schema["components"],
        }
        self._some_values = jsonschema_rs.Draft7Validator(some, validate_formats=False)

    def problems(self, inputs: object, size: int | None = None) -> list[Problem]:
        """Return the problems, missing inputs last; empty if the inputs fit.

        Args:
            inputs: the inputs to check.
            size: bytes of the inputs' JSON, if known: an upper bound for the length of each string.
        """
        found, missing, passed_over = self._misfits(self._without_nulls(inputs))
        if isinstance(inputs, dict):
            found.extend(self._further_problems(inputs))
            if size is None or size > self._most_characters:
                found.extend(first(long_strings(inputs, self._most_characters)))
        if not found and not missing:
            return []
        found.sort(key=lambda problem: problem.loc[2].partition("/")[0])
        absent = [name for name in self._required if name in missing]
        return bounded(found, passed_over) + [
            Problem(("body", "input", name), "Field required", "value_error.missing")
            for name in absent
        ]

    def _misfits(self, inputs: object) -> tuple[list[Problem], set[str], int]:
        """Return the validator's problems, the missing inputs, and the count of unchecked items."""
        found: list[Problem] = []
        missing: set[str] = set()
        if self._validator.is_valid(inputs):
            return found, missing, 0
        looked_at = ShortLists(inputs, {}, 0)
        if isinstance(inputs, dict):  # of a few errors, each is one of the caller's
            looked_at = shorten_lists(inputs, self._some_values.is_valid)
        for error in sorted(self._errors(looked_at.inputs), key=_rank):
            kind = error.kind
            if isinstance(kind, ValidationErrorKind.Required) and not error.instance_path:
                missing.add(kind.property)
            else:
                path = "/".join(map(str, looked_at.place(error.instance_path))) or "__root__"
                found.append(Problem(("body", "input", path), self._said(error)))
        return found, missing, looked_at.passed_over

    def check(self, inputs: Any, size: int) -> Schema:  # noqa: ANN401 - any JSON
        """Return the inputs that the model has, if all fit.

        Args:
            inputs: the inputs to check.
            size: bytes of the inputs' JSON.

        Raises:
            InvalidInputs: the inputs do not fit.
        """
        problems = self.problems(inputs, size)
        if problems:
            raise InvalidInputs(problems)
        return {name: value for name, value in inputs.items() if name in self._properties}

    def redacted(self, inputs: Schema) -> Schema | None:
        """Return the inputs with redacted secrets; None if there is no secret."""
        if all(inputs.get(name) is None for name in self._secrets):
            return None
        return {
            name: REDACTED if name in self._secrets and value is not None else value
            for name, value in inputs.items()
        }

    def _errors(self, inputs: object) -> list[jsonschema_rs.ValidationError]:
        """Return all errors of the validator, with the values of secrets masked."""
        errors = list(self._validator.iter_errors(inputs))
        if not any(self._shows_secret(error) for error in errors):
            return errors
        pairs = zip(errors, self._masking.iter_errors(inputs), strict=True)
        return [masked if self._shows_secret(error) else error for error, masked in pairs]

    def _said(self, error: jsonschema_rs.ValidationError) -> str:
        """Return Cog's words; of a pattern that lists choices, the choices too."""
        kind, words = error.kind, _words(error)
        if self._takes_unknown or not isinstance(kind, ValidationErrorKind.Pattern):
            return words
        return words + choices_in_words(kind.pattern)

    def _shows_secret(self, error: jsonschema_rs.ValidationError) -> bool:
        """Return whether an error shows a secret's value; Cog shows numbers and the like."""
        place, value = error.instance_path, error.instance
        if not place or place[0] not in self._secrets or value is None:
            return False
        return not self._takes_unknown or isinstance(value, list | dict)

    def _without_nulls(self, inputs: object) -> object:
        if not isinstance(inputs, dict):
            return inputs
        nulls = {name for name in self._nullable if name in inputs and inputs[name] is None}
        return {name: value for name, value in inputs.items() if name not in nulls}

    def _further_problems(self, inputs: Schema) -> Iterator[Problem]:
        if not self._takes_unknown and not inputs.keys() <= self._properties.keys():
            for name, reason in find_unknown(inputs, tuple(self._properties)):
                yield Problem(("body", "input", name), reason, "value_error.extra")
        for name, pattern in self._patterns:
            value = inputs.get(name)
            if isinstance(value, str) and not pattern.search(value):
                yield Problem(
                    ("body", "input", name), f'"{value}" does not match "{pattern.pattern}"'
                )
        for name in self._files:
            yield from first(files_that_are_no_urls(name, inputs.get(name)))

    def _set_foreign_patterns_apart(self, component: Schema) -> None:
        for name, schema in component.get("properties", {}).items():
            pattern = schema.get("pattern")
            if pattern is None:
                continue
            try:
                jsonschema_rs.Draft7Validator({"pattern": pattern})
            except jsonschema_rs.ValidationError:
                self._patterns.append((name, re.compile(schema.pop("pattern"))))


def _rank(error: jsonschema_rs.ValidationError) -> tuple[list[tuple[bool, str | int]], str]:
    """Return the sort key of Cog's server for problems: by place, then by keyword."""
    place = [(isinstance(step, str), step) for step in error.instance_path]
    return place, str(error.schema_path[-1])


def _words(error: jsonschema_rs.ValidationError) -> str:
    """Return the message in the words of Cog's own server."""
    kind = error.kind
    if isinstance(kind, ValidationErrorKind.Enum):
        value, allowed = msgspec.json.encode(error.instance), msgspec.json.encode(kind.options)
        return f"{value.decode()} is not one of {allowed.decode()}"
    return error.message


def _is_file(schema: Schema) -> bool:
    return "uri" in (schema.get("format"), schema.get("items", {}).get("format"))


def _holds_secret(schema: Schema) -> bool:
    return bool(schema.get("x-cog-secret") or schema.get("items", {}).get("x-cog-secret"))


def _is_nullable(schema: Schema) -> bool:
    variants = (schema, *schema.get("anyOf", ()))
    return any(variant.get("nullable") is True for variant in variants)
