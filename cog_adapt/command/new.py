"""`cog-adapt new DIR`: writes a new project from the files that belong to the owner of a model.

The project has a copy of both packages too, because `cog build` takes only files in its folder.
"""

import argparse
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from cog_adapt.command import USAGE_ERROR
from cog_adapt.command.kinds import INSTALLED, KERNEL, PACKAGE, TEXT, TOOLS, kinds, written, zone
from cog_adapt.server.errors import ConfigError

_OWN = {
    "pyproject.toml": "new_pyproject.toml",
    "README.md": "new_readme.md",
    TOOLS: "new_requirements-dev.txt",
}
_NEXT = """\
cd {folder}
make setup    # install PyTorch, the model's packages and its weights into .venv
make serve    # and open the link that it prints
"""
_OF_A_CHECKOUT = ("tests", "exam", "docs", "pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE")
"""Files in a package's folder that a checkout has and an installed package lacks."""
_TEXTS = {".py", ".txt", ".lock", ".yaml", ".md", ".toml", ""}
"""Suffixes of files that differ between kinds; all others are copied byte by byte."""


def main(arguments: Sequence[str]) -> int:
    """Write a new project into an empty folder."""
    parser = argparse.ArgumentParser(prog="cog-adapt new", description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="absent or empty")
    known = kinds()
    parser.add_argument("--kind", choices=known, default=TEXT, help="of model (default text)")
    chosen = parser.parse_args(arguments)
    folder = chosen.folder
    try:
        write_project(folder, chosen.kind)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return USAGE_ERROR
    sys.stdout.write(_NEXT.format(folder=shlex.quote(str(folder))))
    return 0


def write_project(folder: Path, kind: str = TEXT) -> None:
    """Write the files of a new project of a kind into a folder.

    Raises:
        ConfigError: the folder is not empty, or cannot be written.
    """
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ConfigError(f"{folder} is not an empty folder. Name one that is, or a new one.")
        for source, name in zone(kind):
            _write(source, folder=folder, name=name, kind=kind)
        for name, own in _OWN.items():
            _write(Path(__file__).with_name(own), folder=folder, name=name, kind=kind)
        for package in (PACKAGE, KERNEL):
            copy_package(package, folder / package.name)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}. Name another.") from error


def copy_package(package: Path, place: Path) -> None:
    """Copy the sources of a package, without a checkout's or a wheel's other files."""
    ignored = shutil.ignore_patterns("__pycache__", ".*", INSTALLED.name, *_OF_A_CHECKOUT)
    shutil.copytree(package, place, ignore=ignored)


def _write(source: Path, folder: Path, name: str, kind: str) -> None:
    target = folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix in _TEXTS:
        target.write_text(written(kind, name, source.read_text("utf-8")), "utf-8")
    else:
        shutil.copyfile(source, target)
