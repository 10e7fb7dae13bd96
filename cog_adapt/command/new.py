"""`cog-adapt new DIR`: writes a new project from the files that belong to the owner of a model.

The project has a copy of the package too, because `cog build` takes nothing outside its folder.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cog_adapt.command import USAGE_ERROR
from cog_adapt.server.errors import ConfigError

PACKAGE = Path(__file__).parents[1]
ZONE = (
    *("cog.yaml", "predict.py", "train.py", "task.py", "server/*.py"),
    *("tests/__init__.py", "tests/test_*.py", "examples/*", "weights/README.md"),
    *("requirements.txt", "requirements-dev.txt", "requirements-weights.txt"),
    *("Dockerfile", "Makefile", ".dockerignore", ".gitignore"),
)
"""The files that belong to the owner of a model, in a checkout of the repository."""

_INSTALLED = PACKAGE / "template"  # put there when the wheel is built
_OWN = {"pyproject.toml": "new_pyproject.toml", "README.md": "new_readme.md"}


def main(arguments: Sequence[str]) -> int:
    """Write a new project into an empty folder."""
    parser = argparse.ArgumentParser(prog="cog-adapt new", description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="absent or empty")
    folder = parser.parse_args(arguments).folder
    try:
        write_project(folder)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return USAGE_ERROR
    sys.stdout.write(f"written: {folder}. Its README.md tells what to do next.\n")
    return 0


def write_project(folder: Path) -> None:
    """Write the files of a new project into a folder.

    Raises:
        ConfigError: the folder is not empty, or cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder} is not an empty folder. Name one that is, or a new one.")
        for source, name in zone():
            _copy(source, folder / name)
        for name, own in _OWN.items():
            _copy(Path(__file__).with_name(own), folder / name)
        ignored = shutil.ignore_patterns("__pycache__", _INSTALLED.name)
        shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=ignored)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}. Name another.") from error


def zone() -> Iterator[tuple[Path, str]]:
    """Yield the owner's files, each with its path in a project."""
    root = _INSTALLED if _INSTALLED.is_dir() else PACKAGE.parent
    for path in [path for pattern in ZONE for path in sorted(root.glob(pattern))]:
        if path.is_file():
            yield path, str(path.relative_to(root))


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
