"""Converts the values that run() returns to JSON; the accepted types are Cog's."""

import dataclasses
import datetime
import enum
import io
import math
import os
import sys
from collections.abc import Iterable, Iterator
from types import GeneratorType
from typing import Any

import msgspec
import pydantic

from cog_adapt.server.worker.uploads import Destination, FileContent

_SCALARS = frozenset((bool, int, float, str, type(None)))


class NumberError(ValueError):
    """A float that JSON cannot hold."""


def is_many(value: object) -> bool:
    """Return whether a value is a list of outputs; Cog treats a set or an array as one output."""
    return isinstance(value, list | tuple | Iterator) and not isinstance(value, io.IOBase)


def to_json(value: object, destination: Destination) -> bytes:
    """Return one output as JSON, keys sorted.

    Raises:
        TypeError: a type that Cog does not accept.
        NumberError: NaN or an infinity.
        UnicodeEncodeError: a text that is not Unicode.
        OSError: a file that cannot be read.
        UploadError: a file that cannot be uploaded.
    """
    return msgspec.json.encode(_plain(value, destination), order="sorted")


def _plain(value: Any, destination: Destination) -> Any:  # noqa: ANN401 - any output
    kind = type(value)
    if kind is float and not math.isfinite(value):
        raise NumberError(f"{value} is no number of JSON; return a finite one, or None")
    if kind in _SCALARS:
        return value
    if isinstance(value, os.PathLike | io.IOBase):
        return destination.link(FileContent.of(value))
    return _plain_parts(value, destination)


def _plain_parts(value: Any, destination: Destination) -> Any:  # noqa: ANN401 - any output
    unwrapped = _unwrapped(value)
    if isinstance(unwrapped, dict):
        return {_key(key): _plain(item, destination) for key, item in unwrapped.items()}
    if isinstance(unwrapped, list | tuple | set | frozenset | GeneratorType):
        return _plain_items(unwrapped, destination)
    if unwrapped is not value:
        return _plain(unwrapped, destination)
    for scalar in (str, int, float):  # of a subclass, json.dumps takes the plain value
        if isinstance(value, scalar):
            return _plain(scalar(value), destination)
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _plain_items(items: Iterable[Any], destination: Destination) -> list[Any]:
    items = list(items)
    kinds = set(map(type, items))
    if kinds <= _SCALARS and (float not in kinds or _are_finite(items)):
        return items
    return [_plain(item, destination) for item in items]


def _are_finite(items: list[Any]) -> bool:
    return all(math.isfinite(item) for item in items if type(item) is float)


def _unwrapped(value: Any) -> Any:  # noqa: ANN401 - any output
    """Return the JSON form of a value of a class of fields, an enum, a time or NumPy."""
    if isinstance(value, pydantic.BaseModel):
        return {name: getattr(value, name) for name in _dumped_names(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.integer | numpy.floating | numpy.ndarray):
        return value.tolist()
    return value


def _dumped_names(value: pydantic.BaseModel) -> Iterable[str]:
    return (
        *type(value).model_fields,
        *type(value).model_computed_fields,
        *(value.model_extra or ()),
    )


def _key(key: object) -> str:
    """Return a key as `json.dumps` writes it."""
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool | int | float):
        return msgspec.json.encode(key).decode()
    raise TypeError(f"keys must be str, int, float, bool or None, not {type(key).__name__}")
