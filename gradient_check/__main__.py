"""`python -m gradient_check path.py:make`: the gradient test without a test suite.

`make()` returns the arguments of `check_gradients`: `(module, probe, loss)`, a fourth value with
options by name, or all of them in a dict. The exit code is 0 if the test passed, 1 if it failed,
and 2 after a wrong call, with a sentence about it.
"""

import argparse
import importlib.util
import inspect
import json
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from gradient_check.check import check_gradients
from gradient_check.display import render
from gradient_check.findings.examination import describe
from gradient_check.findings.report import GradientReport
from gradient_check.phases.errors import ConfigError

_FAILED, _WRONG_CALL = 1, 2
_RETURNS = (
    "let it return `(module, probe, loss)`, `(module, probe, loss, options)` or a dict of the "
    "arguments of check_gradients"
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the test that the arguments name, print its report, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gradient_check")
    parser.description = "Prove that every trainable parameter gets the right gradient."
    parser.add_argument("target", metavar="path.py:make", help=f"a function; {_RETURNS}")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--strict", action="store_true", help="gaps in the proof are failures")
    chosen = parser.parse_args(arguments)
    try:
        report = _checked(chosen.target, strict=chosen.strict)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return _WRONG_CALL
    _show(report, as_json=chosen.json)
    return 0 if report.passed else _FAILED


def _checked(target: str, *, strict: bool) -> GradientReport:
    make = _function(target)
    try:
        made = make()
    except Exception as error:
        raise ConfigError(_raised(f"{target} raised", error)) from error
    values, options = _arguments(target, made)
    options |= {"strict": True} if strict else {}
    try:
        given = inspect.signature(check_gradients).bind(*values, **options)
    except TypeError as error:
        raise ConfigError(f"{target} returned arguments that do not fit: {error}.") from error
    return check_gradients(*given.args, **given.kwargs)


def _function(target: str) -> Callable[[], Any]:
    """Return the function that `path.py:make` names, from the file imported as a module."""
    path, _, name = target.rpartition(":")
    if not path or not name:
        raise ConfigError(f"{target!r} names no function of a file. Write `path.py:make`.")
    file = Path(path).resolve()
    if not file.is_file():
        raise ConfigError(f"{path} is no file. Write the path of a Python file, `path.py:make`.")
    module = _imported(file)
    if not hasattr(module, name):
        raise ConfigError(f"{path} has no {name!r}. Define `def {name}():`; {_RETURNS}.")
    function: Any = getattr(module, name)
    if not callable(function):
        raise ConfigError(f"{target} is a {type(function).__name__}. Name a function; {_RETURNS}.")
    return function  # type: ignore[no-any-return] # whatever the file defines


def _imported(file: Path) -> object:
    """Import a file as Python runs a script: its neighbours can be imported."""
    sys.path.insert(0, str(file.parent))
    name = f"checked_{file.stem}"  # never the name of a library, as `json` or `random` would be
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{file.name} is no Python file. Write `path.py:make`.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ConfigError(_raised(f"{file.name} raised", error)) from error
    return module


def _raised(what: str, error: Exception) -> str:
    """Return a sentence about an error of the caller's code, with the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}: {last.line}"
    return f"{what} {describe(error)}. Where: {where}"


def _arguments(target: str, made: object) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the positional arguments and the options that a maker returned."""
    if isinstance(made, dict):
        return (), dict(made)
    if isinstance(made, tuple | list) and len(made) == 3:
        return made, {}
    if isinstance(made, tuple | list) and len(made) == 4 and isinstance(made[3], dict):
        return made[:3], dict(made[3])
    given = f"a {type(made).__name__}"
    given += f" of {len(made)}" if isinstance(made, tuple | list) else ""
    raise ConfigError(f"{target} returned {given}; {_RETURNS}.")


def _show(report: GradientReport, *, as_json: bool) -> None:
    """Print the report: in a terminal with its checks and norms, else as plain text."""
    if as_json:
        sys.stdout.write(f"{json.dumps(report.to_json(), indent=1)}\n")
    elif sys.stdout.isatty():
        Console().print(render(report))
    else:
        sys.stdout.write(f"{report}\n")


if __name__ == "__main__":
    sys.exit(main())
