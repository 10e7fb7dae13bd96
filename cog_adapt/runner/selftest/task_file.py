"""Loads a task from a user's file, and its model; a mistake there becomes one sentence."""

import difflib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.errors import ConfigError, RunnerError
from cog_adapt.runner.model.loaded_model import LoadedModel
from cog_adapt.runner.task.task import Task
from gradient_check.findings.examination import describe
from gradient_check.instruments.sources import raised_at

T = TypeVar("T")


def load_task(reference: str) -> Task:
    """Load the task that FILE:CLASS names; FILE alone means its only task.

    Raises:
        ConfigError: there is no such file or class, it is no task, the file has several, or its
            code raised.
    """
    path, _, name = reference.partition(":")
    if not Path(path).is_file():
        raise ConfigError(
            f"there is no file {path!r} in {Path.cwd()}. Go to the folder that has it, or name "
            "another: FILE.py:CLASS."
        )
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{reference!r} names no Python file. Write FILE.py:CLASS.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    loader = spec.loader
    wanted = "Correct the line, or install the package that it imports."
    _explained(f"{path} cannot be loaded", lambda: loader.exec_module(module), wanted)
    kind = _named(module, name, path) if name else _only(module, path)
    _check_buildable(kind, path)
    return _explained(f"{kind.__name__}() failed", kind)


def load_model(task: Task, settings: RunnerSettings) -> LoadedModel:
    """Load a task's model.

    Raises:
        RunnerError: the settings do not fit, or the task's code raised.
    """
    name = type(task).__name__
    what = f"the model of {name} cannot be loaded"
    wanted = f"Let {name}.load build the model that fits its weights."
    return _explained(what, lambda: LoadedModel(task, settings), wanted)


def _explained(what: str, function: Callable[[], T], remedy: str = "Mend the line.") -> T:
    """Call a function; turn an error of the user's code into one sentence with its line."""
    try:
        return function()
    except RunnerError:
        raise
    except SyntaxError as error:
        place = f"{error.filename}:{error.lineno}: {(error.text or '').strip()}"
        raise ConfigError(f"{what}: {describe(error)}. Where: {place}. {remedy}") from error
    except Exception as error:
        place = raised_at(error.__traceback__, {}).line or "outside the file"
        raise ConfigError(f"{what}: {describe(error)}. Where: {place}. {remedy}") from error


def _named(module: ModuleType, name: str, path: str) -> type[Task]:
    kind = getattr(module, name, None)
    if kind is None:
        own = [n for n, value in vars(module).items() if _is_task(value)]
        near = difflib.get_close_matches(name, own, 1)
        known = f"Did you mean {near[0]}?" if near else f"Its tasks: {', '.join(own) or 'none'}."
        raise ConfigError(f"{path} has no class {name!r}. {known}")
    if not _is_task(kind):
        raise ConfigError(f"{name!r} in {path} is no subclass of cog_adapt.Task. Make it one.")
    found: type[Task] = kind
    return found


def _is_task(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Task)


def _only(module: ModuleType, path: str) -> type[Task]:
    """Return the only task that a file defines, without its base classes."""
    own = [k for k in vars(module).values() if _is_task(k) and k.__module__ == module.__name__]
    kinds = [kind for kind in own if not inspect.isabstract(kind)]
    if not kinds and len(own) == 1:
        kinds = own  # a later check says what the class lacks
    if len(kinds) != 1:
        names = ", ".join(kind.__name__ for kind in kinds) or "none"
        raise ConfigError(
            f"{path} defines {names}; one subclass of cog_adapt.Task is looked for. "
            "Name it: FILE.py:CLASS."
        )
    found: type[Task] = kinds[0]
    return found


def _near(kind: type[Task], missing: list[str]) -> str:
    """Return a class's names that resemble the right ones."""
    own = [name for name in vars(kind) if not name.startswith("_") and not hasattr(Task, name)]
    pairs = ((name, difflib.get_close_matches(name, own, 1)) for name in missing)
    named = [f"{near[0]} is near {name}: rename it" for name, near in pairs if near]
    return f"; {', '.join(named)}" if named else ""


def _check_buildable(kind: type[Task], path: str) -> None:
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if missing:
        raise ConfigError(
            f"{kind.__name__} in {path} lacks {', '.join(missing)}. "
            f"Write them{_near(kind, missing)}."
        )
    required = [
        name
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
    if required:
        raise ConfigError(
            f"{kind.__name__} in {path} asks for {', '.join(required)}, but a task is built "
            "without arguments. Give them defaults."
        )
