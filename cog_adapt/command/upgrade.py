"""`cog-adapt upgrade DIR`: replaces a project's copies of the packages by those of this command.

Files of the model's owner are unchanged, except for lines that older versions wrote: one in the
`Dockerfile` and the linter's in `pyproject.toml`, which name the packages, and one in
`tests/test_task.py`, which read private names of a package.
"""

import argparse
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cog_adapt.command import USAGE_ERROR
from cog_adapt.command.kinds import KERNEL, PACKAGE
from cog_adapt.command.new import copy_package
from cog_adapt.server.errors import ConfigError

_LINES = {
    "Dockerfile": (
        f"COPY {PACKAGE.name} {PACKAGE.name}\n",
        f"COPY {KERNEL.name} {KERNEL.name}\nCOPY {PACKAGE.name} {PACKAGE.name}\n",
    ),
    "pyproject.toml": (
        f'extend-exclude = ["{PACKAGE.name}"]\n',
        f'extend-exclude = ["{PACKAGE.name}", "{KERNEL.name}"]\n',
    ),
}
"""A line that names the packages: in older versions, and now."""
_TEST = Path("tests", "test_task.py")
_PRIVATE = (
    "        assert runner._model.predictions.shared._proven\n"
    "        assert not runner._model.predictions.shared._sharing._heads\n"
)
_PUBLIC = "        assert runner.model.predictions.shared.proven\n"


def main(arguments: Sequence[str]) -> int:
    """Upgrade the project in a folder."""
    parser = argparse.ArgumentParser(prog="cog-adapt upgrade", description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="of the project")
    folder = parser.parse_args(arguments).folder
    try:
        done = list(upgrade_project(folder))
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return USAGE_ERROR
    sys.stdout.write("\n".join([*done, ""]))
    return 0


def upgrade_project(folder: Path) -> Iterator[str]:
    """Replace the packages of a project; yield a sentence for each change.

    Raises:
        ConfigError: the folder holds no project, is the folder of these packages themselves, or
            cannot be written.
    """
    places = (folder / PACKAGE.name, _old(folder / PACKAGE.name))
    if not (folder / "cog.yaml").is_file() or not any(place.is_dir() for place in places):
        raise ConfigError(
            f"{folder} is no project: it has no cog.yaml and {PACKAGE.name}/. Name the folder that "
            "`cog-adapt new` wrote."
        )
    if (folder / PACKAGE.name).resolve() == PACKAGE.resolve():
        raise ConfigError(
            f"{folder} holds the packages that run this command. Run the command of the version "
            "that the project is to have: of a newer checkout, or of an installed package."
        )
    try:
        for package in (PACKAGE, KERNEL):
            _replace(package, folder / package.name)
            yield f"replaced: {folder / package.name}"
        yield from _name_packages(folder)
        yield from _read_public_names(folder / _TEST)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written: {error}. Run it again.") from error


def _replace(package: Path, place: Path) -> None:
    """Put a copy of a package in place of another, which is removed once the new one is whole."""
    fresh, old = place.with_name(f".{place.name}.new"), _old(place)
    _remove(fresh)  # an interrupted upgrade may have left this folder
    copy_package(package, fresh)
    if place.exists():
        _remove(old)
        place.rename(old)
    fresh.rename(place)
    _remove(old)


def _old(place: Path) -> Path:
    """Return the place of the replaced package until the new one is whole."""
    return place.with_name(f".{place.name}.old")


def _remove(folder: Path) -> None:
    """Remove a folder if it exists; of a link only the link."""
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def _name_packages(folder: Path) -> Iterator[str]:
    """Write the lines that name the packages; yield a sentence for each line written or left."""
    for name, (before, now) in _LINES.items():
        path = folder / name
        text = path.read_text("utf-8") if path.is_file() else ""
        if not text or KERNEL.name in text:
            continue
        if before in text:
            path.write_text(text.replace(before, now, 1), "utf-8")
            yield f"written: {path}: {now.splitlines()[0]}"
        else:
            yield f"left to you: {path} does not name {KERNEL.name}/. A new one has: {now.strip()}"


def _read_public_names(test: Path) -> Iterator[str]:
    """Replace the private names in the test that older versions wrote; yield a sentence if done."""
    text = test.read_text("utf-8") if test.is_file() else ""
    if _PRIVATE in text:
        test.write_text(text.replace(_PRIVATE, _PUBLIC, 1), "utf-8")
        yield f"written: {test}: {_PUBLIC.strip()}"
