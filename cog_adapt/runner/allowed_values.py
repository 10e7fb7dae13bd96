"""Checks values that callers send against their limits."""

import re

from cog_adapt.runner.errors import InputError

_MOST_CHARACTERS = 200
_GLOBS = re.compile(r"(?:[\w.*?,-]|\[!?[\w.-]+\])+", re.ASCII)
# no name begins with a dot, but the pattern `.*` does
_EMPTY_START = re.compile(r"(?:^|,)(?:\.|,|$)")


def check_globs(method: str, globs: str) -> None:
    """Refuse a method whose part after the prefix is no list of globs (InputError)."""
    if len(globs) > _MOST_CHARACTERS:
        raise InputError(
            f"method has {len(globs):,} characters after {method.removesuffix(globs)!r}; the limit "
            f"is {_MOST_CHARACTERS}. Shorten it."
        )
    if not _GLOBS.fullmatch(globs) or _EMPTY_START.search(globs):
        raise InputError(
            f"method is {method!r}; after {method.removesuffix(globs)!r} come globs of parameter "
            "names, no regular expression: * stands for any characters, ? for one, [01] for one of "
            "these, and a comma parts two globs, as in match:encoder.layer.[01].*,*.bias"
        )


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside its range (InputError)."""
    if isinstance(value, bool) or not low <= value <= high:  # this form also refuses NaN
        raise InputError(f"{name} is {value!r}; allowed: {low} to {high}. Choose one in between.")
