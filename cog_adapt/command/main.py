"""The command `cog-adapt`.

A worker imports the main module of its parent. So this module imports only modules that a worker
needs too, and none that a file in the user's folder could replace.
"""

import os
import sys

from cog_adapt.command import USAGE_ERROR

TYPE_CHECKING = False  # typing is not imported: the user's folder may hold a typing.py
if TYPE_CHECKING:
    from collections.abc import Callable

_SUMMARIES = {
    "serve": "serve the predictor of this folder: Cog's HTTP API",
    "predict": "run one prediction, and end",
    "train": "run one training, and end",
    "adapters": "list, name, move and remove adapters",
    "replay": "take the steps of an adaptation's receipt again, and compare",
    "selftest": "prove that gradients reach every parameter of a task",
    "key": "make an API key",
    "openapi": "print the OpenAPI document of the predictor in this folder",
    "new": "write a new project into an empty folder",
    "doctor": "say what is missing or odd here, with the command that mends it",
    "weights": "install the pretrained weights of a kind, by hash",
    "upgrade": "replace a project's copies of the packages by this version's",
}
COMMANDS = tuple(_SUMMARIES)
_WITH_MAIN = ("new", "weights", "doctor", "upgrade", "selftest")
"""Commands whose module has a function `main` that returns the exit code."""
_NOT_INSTALLED = """\
error: {name} is not installed, and `cog-adapt {command}` needs it. Run `make setup` in a project,
or install the packages of a kind of model: pip install 'cog-adapt[text]'
"""


_OF_THE_PROJECT = (
    "serve",
    "predict",
    "train",
    "replay",
    "selftest",
    "openapi",
    "doctor",
    "weights",
)
"""Commands that need the packages and the weights that `make setup` installs for a project."""
_PROJECTS_PYTHON = os.path.join(".venv", "bin", "python")


def main() -> None:
    """Run the command line of this process."""
    if _is_for_the_project():
        sys.stderr.write(f"in this project's environment: {_PROJECTS_PYTHON} -m cog_adapt\n")
        os.execv(_PROJECTS_PYTHON, [_PROJECTS_PYTHON, "-m", "cog_adapt", *sys.argv[1:]])
    if not sys.flags.safe_path and not _is_here():
        # The folder of a predictor may hold a random.py. Its modules are for the worker
        # alone, but Python would prefer them to its own in every process that it spawns.
        os.execv(sys.executable, [sys.executable, "-P", *sys.orig_argv[1:]])
    run(sys.argv[1:])


def run(arguments: list[str]) -> None:
    """Run one command, which ends the process, with an exit code if it failed."""
    name, rest = (arguments[0], arguments[1:]) if arguments else ("--help", [])
    if name in ("-h", "--help"):
        sys.stdout.write(_help())
    elif name == "serve":
        from cog_adapt.server.command.serve import serve_folder

        serve_folder(rest)
    elif name in COMMANDS:
        _run_and_end(name, arguments)
    else:
        sys.stderr.write(f"error: {name!r} is no command; allowed: {', '.join(COMMANDS)}.\n")
        sys.exit(USAGE_ERROR)


def _run_and_end(name: str, arguments: list[str]) -> None:
    import atexit
    import gc

    from cog_adapt.rare_collections import rare_collections

    atexit.register(gc.freeze)  # beside a model, the last collections take up to a second
    with rare_collections():
        if name in _WITH_MAIN:
            sys.exit(_main_of(name)(arguments[1:]))
        from cog_adapt.command.app import app

        app(arguments)


def _main_of(command: str) -> "Callable[[list[str]], int]":
    """Return a command's function; end the process with a sentence where it lacks a package."""
    import importlib

    try:
        found: Callable[[list[str]], int] = importlib.import_module(
            f"cog_adapt.command.{command}"
        ).main
    except ModuleNotFoundError as error:
        sys.stderr.write(_NOT_INSTALLED.format(name=error.name, command=command))
        sys.exit(USAGE_ERROR)
    return found


def _help() -> str:
    lines = (f"  {name:<10}{summary}" for name, summary in _SUMMARIES.items())
    return "\n".join(["usage: cog-adapt COMMAND … (each with --help)", "", *lines, ""])


def _is_for_the_project() -> bool:
    """Return whether the command is of a project here that has packages and a Python of its own."""
    is_named = len(sys.argv) > 1 and sys.argv[1] in _OF_THE_PROJECT
    if not (is_named and os.path.isdir("cog_adapt") and os.access(_PROJECTS_PYTHON, os.X_OK)):
        return False
    return not _is_here() and os.path.realpath(sys.prefix) != os.path.realpath(".venv")


def _is_here() -> bool:
    """Return whether the package is imported from the working directory."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
    return root == os.path.realpath(os.getcwd())
