"""Files of the caller's machine: inputs that are paths become URIs, downloads become files."""

import base64
import contextlib
import json
import mimetypes
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from cog_adapt.client.errors import FileNotWritten, Problem, RefusedInput

Place = tuple[str, ...]
"""Where a value stands in the inputs: its name, and the steps within."""


class FileLimits(NamedTuple):
    """How the files of one run are sent.

    Attributes:
        most_bytes: of all files in the body, before base64.
        upload_above: bytes of a file above which it is uploaded.
    """

    most_bytes: int
    upload_above: int


def encode_inputs(
    inputs: Mapping[str, Any],
    most_bytes: int,
    urls: Mapping[Place, str] | None = None,
    **fields: object,
) -> bytes:
    """Return the body of a request; each `Path` in the inputs becomes its URL or a data URI.

    Args:
        inputs: by name.
        most_bytes: of all files in the body, before base64.
        urls: of uploaded files, by place.
        fields: beside the inputs.

    Raises:
        RefusedInput: a file cannot be read, the files are too large, or a value is no JSON.
    """
    files = _Files(most_bytes, urls or {})
    found = {name: files.placed(value, (name,)) for name, value in inputs.items()}
    try:
        return _json({"input": found, **fields})
    except (TypeError, ValueError):
        raise RefusedInput([*_no_json(found)]) from None


def large_files(inputs: Mapping[str, Any], above: int) -> dict[Place, Path]:
    """Return the files that are inputs, or in a list that is one, with more bytes, by place."""
    places: dict[Place, object] = {(name,): value for name, value in inputs.items()}
    for name, value in inputs.items():
        if isinstance(value, list | tuple):
            places |= {(name, str(number)): each for number, each in enumerate(value)}
    files = {place: each for place, each in places.items() if isinstance(each, Path)}
    return {place: path for place, path in files.items() if _size(path) > above}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # `encode_inputs` names it
        return 0


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _no_json(inputs: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the inputs that cannot be written as JSON."""
    for name, value in inputs.items():
        try:
            _json({name: value})
        except (TypeError, ValueError) as error:
            reason = f"it is no JSON: {error}. Send texts, numbers, lists, dicts, or a Path."
            yield Problem(str(name), value, reason)


def data_uri(path: Path, content: bytes) -> str:
    """Return a file's content as a data URI, whose type follows from the file's extension."""
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def open_file(path: Path, field: str) -> BinaryIO:
    """Open a file for reading.

    Raises:
        RefusedInput: the file cannot be read.
    """
    try:
        return path.open("rb")
    except OSError as error:
        reason = f"{path} cannot be read: {error.strerror}."
        raise RefusedInput([Problem(field, path, reason)]) from error


def read_file(path: Path, most_bytes: int, field: str) -> bytes:
    """Read a file of a bounded size.

    Raises:
        RefusedInput: the file cannot be read, or is larger.
    """
    with open_file(path, field) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        reason = (
            f"with {path} the files of this request have more than {most_bytes:,} bytes. Put the "
            "file where the server can download it, and send its URL; or raise max_file_bytes, "
            "and the server's MAX_BODY_BYTES with it."
        )
        raise RefusedInput([Problem(field, path, reason)])
    return content


def write_file(path: Path, offered: str, content: bytes) -> Path:
    """Write a file, or into a folder under the offered name; whole or not at all.

    Raises:
        FileNotWritten: the file cannot be written.
    """
    target = target_of(path, offered)
    with writing(target) as file:
        file.write(content)
    return target


def target_of(path: Path, offered: str) -> Path:
    """Return a file, or the file in a folder with the offered name, whose path does not count."""
    return path / Path(offered).name if path.is_dir() else path


@contextlib.contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write, which gets its name at the end; or leave what was there.

    Raises:
        FileNotWritten: the file cannot be written.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except OSError as error:
        raise FileNotWritten(f"{path} cannot be written: {error.strerror}.") from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink()


class _Files:
    """Reads the files of one request, which have a number of bytes together."""

    def __init__(self, most_bytes: int, urls: Mapping[Place, str]) -> None:
        self._left = most_bytes
        self._urls = urls

    def placed(self, value: object, place: Place) -> object:
        if place in self._urls:
            return self._urls[place]
        if isinstance(value, Path):
            content = read_file(value, self._left, ".".join(place))
            self._left -= len(content)
            return data_uri(value, content)
        if isinstance(value, Mapping):
            return {name: self.placed(part, (*place, str(name))) for name, part in value.items()}
        if isinstance(value, list | tuple):
            parts = enumerate(value)
            return [self.placed(part, (*place, str(number))) for number, part in parts]
        return value
