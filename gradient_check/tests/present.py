"""For values that may be None by their type, and must not be None in a test."""

from typing import Any, TypeVar

Value = TypeVar("Value")


def present(value: Value | None) -> Value:
    """Return the value; fail if it is None."""
    assert value is not None
    return value


NOT_USED: Any = None  # an argument that the tested code does not touch
