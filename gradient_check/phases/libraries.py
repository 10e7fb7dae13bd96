"""Distinguishes the code of installed libraries from the user's own."""

import functools
import sys
from pathlib import Path

_FOLDERS = {"site-packages", "dist-packages"}


def is_of_a_library(value: object) -> bool:
    """Return whether a function, a class or an object's class comes from an installed library."""
    return _is_a_library(getattr(value, "__module__", None) or "")


def _is_a_library(name: str) -> bool:
    return is_library_file(getattr(sys.modules.get(name), "__file__", None) or "")


@functools.cache
def is_library_file(filename: str) -> bool:
    """Return whether a file lies in a folder of installed packages, or beside their metadata."""
    path = Path(filename)
    if _FOLDERS.intersection(path.parts):
        return True
    levels = zip(path.parents, (path, *path.parents), strict=False)
    return any(any(home.glob(f"{part.stem}-*.dist-info")) for home, part in levels)
