"""What becomes of a final output: text and JSON on standard output, files on disk."""

import base64
import json
import mimetypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cog_adapt.server.errors import InputError, StorageError

_DATA_URI = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*;base64,")
_KEPT = re.compile(r"[^\w.-]+")  # what a server calls its outputs must not leave the folder
_UNKNOWN = "application/octet-stream"
_MOST_HEADER = 100 * 2**20  # bytes, of safetensors
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class OutputPath:
    """Where results are written.

    Attributes:
        named: the path of `-o`; None without it.
        stem: what files are called without one: `output`, or `weights` for a training.
    """

    named: Path | None
    stem: str

    def check(self) -> None:
        """Find out before anything is run whether it can be written.

        Raises:
            InputError: there is no such folder, or nothing may be written there.
        """
        folder = self.path.parent
        if not folder.is_dir():
            raise InputError(f"-o {self.named}: there is no folder {folder}; make it.")
        if not os.access(folder, os.W_OK):
            raise InputError(f"the folder {folder} may not be written to; name another with -o.")

    @property
    def path(self) -> Path:
        """The path for the one result there is."""
        if self.named is None:
            return Path(self.stem)
        return self.named / self.stem if self.named.is_dir() else self.named


def as_text(output: object) -> str:
    """A string as it is, anything else as JSON to read."""
    return output if isinstance(output, str) else json.dumps(output, indent=2, ensure_ascii=False)


def write(path: Path, content: bytes) -> None:
    """Write one file.

    Raises:
        StorageError: the disk does not take it.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error


def write_files(output: object, target: OutputPath) -> tuple[object, list[Path]]:
    """Write each data URI of an output to a file.

    Returns:
        What is left to show: the output with paths in place of the data URIs, None if it was
        nothing but files. And the paths.
    """
    uris = dict(_find(output, ()))
    paths = {}
    for place, uri in uris.items():
        paths[place] = _path(target.path, place, uri, is_only=len(uris) == 1)
        write(paths[place], base64.b64decode(uri.partition(",")[2]))
    items = output if isinstance(output, list) else [output]
    is_all = len(paths) == len(items) and all(isinstance(item, str) for item in items)
    return None if is_all else _replace(output, (), paths), list(paths.values())


def _find(value: object, place: Place) -> Iterator[tuple[Place, str]]:
    if isinstance(value, str) and _DATA_URI.match(value):
        yield place, value
    for key, part in _parts(value):
        yield from _find(part, (*place, key))


def _parts(value: object) -> Iterator[tuple[str | int, object]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _replace(value: object, place: Place, paths: dict[Place, Path]) -> object:
    if place in paths:
        return str(paths[place])
    if isinstance(value, dict):
        return {key: _replace(part, (*place, key), paths) for key, part in value.items()}
    if isinstance(value, list):
        return [_replace(part, (*place, index), paths) for index, part in enumerate(value)]
    return value


def _path(path: Path, place: Place, uri: str, *, is_only: bool) -> Path:
    """`output.png`; of a list `output.0.png`; of several keys `output.mask.png`."""
    parts = [_KEPT.sub("_", str(part)) for part in place if isinstance(part, int) or not is_only]
    suffix = path.suffix or _suffix(uri)
    return path.with_name(".".join([path.stem if path.suffix else path.name, *parts]) + suffix)


def _suffix(uri: str) -> str:
    """By the type; safetensors has none of its own, but begins with its header's JSON."""
    found = _DATA_URI.match(uri)
    kind = (found and found[1]) or _UNKNOWN
    if kind != _UNKNOWN:
        return mimetypes.guess_extension(kind) or ""
    start = base64.b64decode(uri.partition(",")[2][:16])
    header = int.from_bytes(start[:8], "little")
    return ".safetensors" if start[8:9] == b"{" and header < _MOST_HEADER else ""
