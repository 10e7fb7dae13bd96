"""`cog-adapt serve`: the server, with the app that the folder's `pyproject.toml` names.

    [tool.cog-adapt]
    app = "server.app:build"

`build(settings)` returns the app to serve; by default the package's own app is served. An app that
cannot be loaded is an error at the start, because it may hold a policy that must not be skipped.
"""

import importlib
import importlib.util
import re
import sys
import tomllib
import traceback
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from fastapi import FastAPI

from cog_adapt.server.app import create_app
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.main import serve
from cog_adapt.server.settings import Settings

PROJECT = Path("pyproject.toml")
_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")


def serve_folder(arguments: Sequence[str]) -> NoReturn:
    """Serve the predictor of the working directory; the flags are Cog's."""
    serve(arguments, build=build_app, program="cog-adapt serve")


def build_app(settings: Settings) -> FastAPI:
    """Build the app that the working directory's project names, else the package's own.

    Raises:
        ConfigError: the named app cannot be loaded.
    """
    reference = read_reference(PROJECT)
    if reference is None:
        return create_app(settings)
    app = load_function(reference, Path.cwd())(settings)
    if not isinstance(app, FastAPI):
        raise ConfigError(
            f"app {reference!r} of {PROJECT} returned {app!r}; it must return a FastAPI app, "
            "such as cog_adapt.create_app(settings)."
        )
    return app


def read_reference(project: Path) -> str | None:
    """Return `app` from the table `tool.cog-adapt` of a file, or None without that table.

    Raises:
        ConfigError: the file is no TOML, or the table has anything else in it.
    """
    if not project.exists():
        return None
    try:
        tools = tomllib.loads(project.read_text()).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise ConfigError(f"{project} cannot be read: {error}. Correct it.") from error
    found = [name for name in tools if re.sub("[-_.]", "", name.lower()) == "cogadapt"]
    if not found:
        return None
    match tools[found[0]]:
        case {"app": str(reference), **others} if not others and _REFERENCE.fullmatch(reference):
            if found == ["cog-adapt"]:
                return reference
    raise ConfigError(
        f"{project}: [tool.{found[0]}] is {tools[found[0]]!r}; "
        'allowed: [tool.cog-adapt] with app = "MODULE:FUNCTION", such as "server.app:build".'
    )


def load_function(reference: str, folder: Path) -> Callable[..., object]:
    """Import the function of `MODULE:FUNCTION` from the modules of a folder.

    When these modules import others, installed packages come before the folder, which is on no path
    that a worker process inherits.

    Raises:
        ConfigError: there is no such function, or its module cannot be imported.
    """
    module_name, _, name = reference.partition(":")
    finder = _FolderFinder(folder)
    sys.meta_path.append(finder)
    try:
        _import_top(module_name.partition(".")[0], finder)
        function = getattr(importlib.import_module(module_name), name, None)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise ConfigError(
            f"app {reference!r} of {PROJECT} cannot be imported: {type(error).__name__}: {error} "
            f"({place.filename}, line {place.lineno}). Correct it."
        ) from error
    if not callable(function):
        raise ConfigError(
            f"app {reference!r} of {PROJECT}: {module_name} has no function {name}. "
            "Define it, or name another."
        )
    return function  # type: ignore[no-any-return]


class _FolderFinder:
    """Finds the modules of a folder, for names that other finders do not know."""

    def __init__(self, folder: Path) -> None:
        self._path = [str(folder)]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, self._path, target) if path is None else None


def _import_top(name: str, finder: _FolderFinder) -> None:
    """Import a module or package of the folder before any other of the same name."""
    spec = finder.find_spec(name)
    if spec is None:
        raise ModuleNotFoundError(f"there is no module {name!r} in {Path.cwd()}")
    known = sys.modules.get(name)
    if known is not None and getattr(known.__spec__, "origin", None) != spec.origin:
        raise ImportError(f"{name!r} is the name of a module in use; rename the folder's")
    if known is None:
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        if spec.loader is not None:  # a folder without __init__.py contains no code to run
            spec.loader.exec_module(module)
