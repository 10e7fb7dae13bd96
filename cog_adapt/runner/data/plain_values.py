"""Plain values: the parts of a prediction, their length, and their comparison."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

_PLAIN = (str, int, float, bool, type(None))
_SAME = 1e-2
LONG_TEXT = 2**16  # characters
Place = tuple[Any, ...]
"""The keys and numbers that lead to a part of a value."""


def not_plain(value: Any) -> str | None:  # noqa: ANN401 - whatever a task returns
    """Return the kind of the first part of a value that is not plain, or None."""
    if type(value) in _PLAIN:
        return None
    if isinstance(value, dict):
        key = next((k for k in value if not isinstance(k, str)), None)
        if key is not None:
            return f"a dict with a {type(key).__name__} as a key"
        return next(filter(None, map(not_plain, value.values())), None)
    if isinstance(value, list | tuple):
        return next(filter(None, map(not_plain, value)), None)
    return f"a {type(value).__module__}.{type(value).__qualname__}"


def characters_of(value: object) -> int:
    """Count the characters of a text, or of all texts in lists and objects; 0 for other values."""
    if isinstance(value, str):
        return len(value)
    total, left = 0, [value]
    while left:
        part = left.pop()
        if isinstance(part, str):
            total += len(part)
        elif isinstance(part, Mapping):
            left += [*part.keys(), *part.values()]
        elif isinstance(part, list | tuple):
            left += part
    return total


def without_long_texts(
    value: Any,  # noqa: ANN401 - any of JSON
    long: list[tuple[Place, str]],
    place: Place = (),
) -> Any:  # noqa: ANN401
    """Return a value with None in place of each text of more than LONG_TEXT characters.

    `json.dumps` of 22 MB is one call of 60 ms, in which no other thread has the interpreter.

    Args:
        value: its lists, tuples and dicts are copied.
        long: gets the long texts, each with its place.
        place: of the value.
    """
    if isinstance(value, str) and len(value) > LONG_TEXT:
        long.append((place, value))
        return None
    if not isinstance(value, dict | list | tuple):
        return value
    parts = {
        # most parts are short texts, and cost no call
        key: part
        if type(part) is str and len(part) <= LONG_TEXT
        else without_long_texts(part, long, (*place, key))
        for key, part in (value.items() if isinstance(value, dict) else enumerate(value))
    }
    return parts if isinstance(value, dict) else [*parts.values()]


def utf8_pieces(text: str) -> Iterator[bytes]:
    """Yield the UTF-8 of a text, LONG_TEXT characters at a time, so that other threads run.

    Raises:
        UnicodeEncodeError: the text has half of a surrogate pair.
    """
    for start in range(0, len(text), LONG_TEXT):
        yield text[start : start + LONG_TEXT].encode()


def alike(one: Any, other: Any) -> bool:  # noqa: ANN401
    """Return whether two plain values are equal, but for the last digits of numbers."""
    if isinstance(one, float) and isinstance(other, float):
        near = math.isclose(one, other, rel_tol=_SAME, abs_tol=_SAME)
        return near or (math.isnan(one) and math.isnan(other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[k], other[k]) for k in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)
