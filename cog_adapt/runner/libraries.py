"""Tells the code of installed libraries from the user's own."""

import functools
import sys
from pathlib import Path

_FOLDERS = {"site-packages", "dist-packages"}


def is_of_a_library(value: object) -> bool:
    """Return whether a function, a class or an object's class comes from an installed library."""
    return _is_a_library(getattr(value, "__module__", None) or "")


@functools.cache
def _is_a_library(name: str) -> bool:
    """Return whether a module lies in a folder of installed packages, or beside its metadata."""
    path = Path(getattr(sys.modules.get(name), "__file__", None) or "")
    if _FOLDERS.intersection(path.parts):
        return True
    package = name.partition(".")[0]
    if package not in path.parts:
        return False
    home = Path(*path.parts[: path.parts.index(package)])
    return any(home.glob(f"{package}-*.dist-info"))
