"""Plain values: the parts of a prediction, their length, and their comparison."""

import math
from collections.abc import Mapping
from typing import Any

_PLAIN = (str, int, float, bool, type(None))
_SAME = 1e-2


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
