"""Converts the JSON of an input to run()'s arguments."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import cog
import msgspec

from cog_adapt.server.errors import InputError
from cog_adapt.server.schema.loader import Handler
from cog_adapt.server.schema.signatures import type_hints
from cog_adapt.server.schema.types import is_list, plain, union_members
from cog_adapt.server.worker.data_urls import is_url

_SHOWN = 80
_FILES = ("path", "file")
_InputType = Literal["path", "file", "secret", "int", "other"]


@dataclass(frozen=True)
class InputReader:
    """Turns the inputs of a handler into arguments."""

    parameters: "tuple[_Parameter, ...]"

    @classmethod
    def of(cls, handler: Handler) -> "InputReader":
        """Make the reader for a handler's parameters."""
        hints = type_hints(handler)
        return cls(tuple(_Parameter.of(each, hints.get(each.name)) for each in handler.parameters))

    def read(self, content: bytes) -> dict[str, Any]:
        """Return the arguments by name, with defaults filled in; files are still URLs."""
        given: dict[str, Any] = msgspec.json.decode(content)
        defaults = {each.name: each.default for each in self.parameters if each.has_default}
        # The front drops unknown inputs; the others it lets through, as Cog does, are for the
        # function.
        return defaults | given

    def urls(self, arguments: Mapping[str, Any]) -> list[str]:
        """Return the URLs of all files, in the order that `convert` expects.

        Raises:
            InputError: a file is not named by a URL.
        """
        return [
            parameter.checked(value)
            for parameter, value in self._given(arguments)
            if parameter.kind in _FILES  # a long list of texts is not searched
            for value in (value if isinstance(value, list) else [value])
            if parameter.names_file(value)
        ]

    def convert(
        self,
        arguments: Mapping[str, Any],
        paths: Iterator[Path],
        opened: Callable[[Path], BinaryIO],
    ) -> dict[str, Any]:
        """Convert the arguments to run()'s types."""

        def converted(parameter: _Parameter, value: Any) -> Any:  # noqa: ANN401 - any of JSON
            if parameter.kind == "other":
                return value  # a long list is returned unchanged too
            if isinstance(value, list) and parameter.is_list:
                return [converted(parameter, item) for item in value]
            if not parameter.names_file(value):
                return parameter.plain_value(value)
            path = next(paths)
            return opened(path) if parameter.kind == "file" else cog.Path(path)

        known = {parameter.name for parameter in self.parameters}
        return {name: value for name, value in arguments.items() if name not in known} | {
            parameter.name: converted(parameter, value)
            for parameter, value in self._given(arguments)
        }

    def _given(self, arguments: Mapping[str, Any]) -> "Iterator[tuple[_Parameter, Any]]":
        for parameter in self.parameters:
            if parameter.name in arguments:
                yield parameter, arguments[parameter.name]


@dataclass(frozen=True)
class _Parameter:
    name: str
    kind: _InputType
    is_list: bool
    has_default: bool
    default: Any

    @classmethod
    def of(cls, parameter: inspect.Parameter, annotation: object) -> "_Parameter":
        members, nullable = union_members(plain(annotation))
        kind, has_items = _kind(members)
        default = parameter.default
        named = default is not parameter.empty
        if isinstance(default, cog.FieldInfo):
            default = default.default
            named = default is not None or nullable or kind == "secret"
        return cls(
            name=parameter.name,
            kind=kind,
            is_list=has_items,
            has_default=named or nullable,
            default=default if named else None,
        )

    def names_file(self, value: object) -> bool:
        """Return whether the value stands for a file; a default may also be one itself."""
        return self.kind in _FILES and isinstance(value, str)

    def checked(self, value: str) -> str:
        if is_url(value):
            return value
        raise InputError(
            f"input {self.name!r} is {_shortened(value)}; allowed: http(s):// and data: URLs, "
            "no paths of this machine. Upload the file and send its URL, or send it as a data URL."
        )

    def plain_value(self, value: Any) -> Any:  # noqa: ANN401 - any of JSON
        if self.kind == "secret" and isinstance(value, str):
            return cog.Secret(value)
        if self.kind == "int" and isinstance(value, float) and value.is_integer():
            return int(value)
        return value


def _kind(members: list[object]) -> tuple[_InputType, bool]:
    if len(members) != 1:
        return "other", False
    member = members[0]
    if is_list(member):
        return _scalar_kind(plain((get_args(member) or (Any,))[0])), True
    return _scalar_kind(member), False


def _scalar_kind(annotation: object) -> _InputType:
    if inspect.isclass(annotation) and issubclass(annotation, os.PathLike):
        return "path"
    known: dict[object, _InputType] = {cog.File: "file", cog.Secret: "secret", int: "int"}
    return next((kind for each, kind in known.items() if each is annotation), "other")


def _shortened(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…")
