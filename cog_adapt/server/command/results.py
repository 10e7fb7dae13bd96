"""Writes a final output: text and JSON on standard output, files on disk."""

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
_KEPT = re.compile(r"[^\w.-]+")  # file names from a server must not lead out of the folder
_UNKNOWN = "application/octet-stream"
_MOST_HEADER = 100 * 2**20  # bytes of safetensors' header
Place = tuple[str | int, ...]


@dataclass(frozen=True)
class OutputPath:
    """The place where results are written.

    Attributes:
        named: the path of `-o`, or None.
        stem: the file name without `-o`: `output`, or `weights` for a training.
    """

    named: Path | None
    stem: str

    def check(self) -> None:
        """Check before the run that results can be written.

        Raises:
            InputError: the folder does not exist, or is not writable.
        """
        folder = self.path.parent
        if not folder.is_dir():
            raise InputError(f"-o {self.named}: there is no folder {folder}; make it.")
        if not os.access(folder, os.W_OK):
            raise InputError(f"the folder {folder} may not be written to; name another with -o.")

    @property
    def path(self) -> Path:
        """The path for a single result."""
        if self.named is None:
            return Path(self.stem)
        return self.named / self.stem if self.named.is_dir() else self.named


def as_text(output: object) -> str:
    """Return a string unchanged, and anything else as indented JSON."""
    return output if isinstance(output, str) else json.dumps(output, indent=2, ensure_ascii=False)


def write(path: Path, content: bytes) -> None:
    """Write one file.

    Raises:
        StorageError: the file cannot be written.
    """
    try:
        path.write_bytes(content)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from error


def write_files(output: object, target: OutputPath) -> tuple[object, list[Path]]:
    """Write each data URI of an output to a file.

    Returns:
        The output with paths in place of the data URIs, or None if it was nothing but files; and
        the paths.
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
    """Return `output.png`; for a list, `output.0.png`; for several keys, `output.mask.png`."""
    parts = [_KEPT.sub("_", str(part)) for part in place if isinstance(part, int) or not is_only]
    suffix = path.suffix or _suffix(uri)
    return path.with_name(".".join([path.stem if path.suffix else path.name, *parts]) + suffix)


def _suffix(uri: str) -> str:
    """Return the extension of the type; safetensors, which has no type, is known by its header."""
    found = _DATA_URI.match(uri)
    kind = (found and found[1]) or _UNKNOWN
    if kind != _UNKNOWN:
        return mimetypes.guess_extension(kind) or ""
    start = base64.b64decode(uri.partition(",")[2][:16])
    header = int.from_bytes(start[:8], "little")
    return ".safetensors" if start[8:9] == b"{" and header < _MOST_HEADER else ""
