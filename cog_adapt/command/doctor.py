"""`cog-adapt doctor`: what is missing or odd for the model of this folder, and what mends it.

A part is missing if the server cannot start without the part; it is odd if it works, but not as the
tests ran, or not as a user may expect.
"""

import argparse
import importlib
import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple

from cog_adapt.command.weights import FILE as WEIGHTS
from cog_adapt.command.weights import pins_of
from cog_adapt.server.cogfile import read_cogfile
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.settings import COGFILE, read_settings

REQUIREMENTS = Path("requirements.txt")
TRIED = ((3, 11), (3, 12))
"""Versions of Python that the tests ran with."""
SYSTEM = platform.system()
_UNTRIED = """\
On 3.13 the server, the client and the commands have answered without a model; PyTorch was not
tried. For macOS all packages of the server exist, and nothing was run."""
_ROOM = 2 * 2**30  # bytes for records and adapters
_GIB = 2**30
_INSTALL = f"{os.path.basename(sys.executable)} -m pip install -r {REQUIREMENTS}"


class Part(NamedTuple):
    """One part of what a server needs, and its state."""

    state: Literal["ok", "odd", "missing"]
    name: str
    found: str
    remedy: str = ""

    @property
    def line(self) -> str:
        """The part on one line, with the rest and the remedy below."""
        first, *others = [*self.found.splitlines(), *filter(None, [self.remedy])]
        below = "".join(f"{'':<22}{each}\n" for each in others)
        return f"{self.state:<9}{self.name:<13}{first}\n{below}"


def main(arguments: Sequence[str]) -> int:
    """Say what this folder's model needs, and has; exit with 1 if a part is missing."""
    parser = argparse.ArgumentParser(prog="cog-adapt doctor", description=main.__doc__)
    parser.parse_args(arguments)
    parts = list(examine())
    for part in parts:
        sys.stdout.write(part.line)
    return int(any(part.state == "missing" for part in parts))


def examine() -> Iterator[Part]:
    """Yield the state of each part, in the order in which a user would mend them."""
    yield _python()
    yield _packages(REQUIREMENTS, "packages", f"make setup, or {_INSTALL}")
    yield _device()
    yield _packages(WEIGHTS, "weights", "make setup, or python -m cog_adapt weights")
    yield _cog_file()
    yield from _server()


def _python() -> Part:
    version = sys.version_info[:2]
    found = f"{_dotted(version)} on {SYSTEM}"
    if version in TRIED and SYSTEM == "Linux":
        return Part("ok", "Python", found)
    tried = " and ".join(map(_dotted, TRIED))
    said = f"{found}; tried were {tried} on Linux\n{_UNTRIED}"
    remedy = "" if version in TRIED else "rm -rf .venv && make PYTHON=python3.11 setup"
    return Part("odd", "Python", said, remedy=remedy)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _packages(file: Path, name: str, remedy: str) -> Part:
    """Compare the installed packages with the pins of a file."""
    if not file.exists():
        return Part("odd", name, f"{file} is not in this folder", remedy="cog-adapt new my-model")
    wanted = dict(pin.split("==") for pin in pins_of(file.read_text("utf-8", errors="replace")))
    found = {package: _installed(package) for package in wanted}
    if absent := [f"{package} {wanted[package]}" for package in wanted if not found[package]]:
        return Part("missing", name, f"not installed: {', '.join(absent)}", remedy=remedy)
    others = [
        f"{package} {found[package]}, tried was {pin}"
        for package, pin in wanted.items()
        if str(found[package]).partition("+")[0] != pin
    ]
    if others:
        return Part("odd", name, "; ".join(others), remedy=remedy)
    return Part("ok", name, f"{len(wanted)} of {file}, as tested" if wanted else "none needed")


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device() -> Part:
    try:
        torch = importlib.import_module("torch")
        if torch.cuda.is_available():
            device = torch.cuda.get_device_properties(0)
            return Part("ok", "device", f"{device.name}, {device.total_memory / _GIB:.0f} GiB")
    except Exception as error:  # noqa: BLE001 - a broken driver raises anything
        return Part("missing", "device", f"PyTorch fails: {error}", remedy="make setup")
    reason = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "built without CUDA"
    return Part(
        "ok", "device", f"CPU ({os.cpu_count()} cores; torch {torch.__version__}, {reason})"
    )


def _cog_file() -> Part:
    try:
        file = read_cogfile(COGFILE)
    except ConfigError as error:
        return Part("missing", str(COGFILE), str(error))
    named = [each for each in (file.predict_reference, file.train) if each]
    if not named:
        return Part(
            "missing", str(COGFILE), "names no predictor", remedy="write: run: predict.py:Predictor"
        )
    for reference in named:
        path, _, name = reference.partition(":")
        if not Path(path).is_file():
            return Part("missing", str(COGFILE), f"{reference}: there is no {path} in this folder")
        text = Path(path).read_text("utf-8", errors="replace")
        if not re.search(rf"^(async )?(class|def) {name}\b", text, re.MULTILINE):
            return Part("odd", str(COGFILE), f"{reference}: no class or function {name} is seen")
    return Part("ok", str(COGFILE), ", ".join(named))


def _server() -> Iterator[Part]:
    """Yield the parts that depend on the settings."""
    try:
        settings = read_settings()
    except ConfigError as error:
        yield Part("missing", "settings", str(error))
        return
    yield Part("ok", "settings", "allowed")
    folder = Path(os.environ.get("WEIGHTS_DIR") or "weights").absolute()
    there = next(each for each in (folder, *folder.parents) if os.path.exists(each))
    free = shutil.disk_usage(there).free
    said = f"{free / _GIB:.1f} GiB free for {folder}"
    if not (there.is_dir() and os.access(there, os.W_OK)):
        found = f"{there} is no folder that can be written"
        yield Part("missing", "disk", found, remedy="WEIGHTS_DIR=… make serve")
    elif free < _ROOM:
        yield Part("odd", "disk", said, remedy="WEIGHTS_DIR=… make serve")
    else:
        yield Part("ok", "disk", said)
    if _is_taken(settings.port):
        free_one = settings.port + 1
        yield Part(
            "missing", "port", f"{settings.port} is in use", remedy=f"PORT={free_one} make serve"
        )
    else:
        yield Part("ok", "port", f"{settings.port} is free")


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False
