"""Files of the caller's machine: inputs that are paths become data URIs, downloads become files."""

import base64
import json
import mimetypes
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from cog_adapt.client.errors import FileNotWritten, Problem, RefusedInput


def encode_inputs(inputs: Mapping[str, Any], most_bytes: int) -> bytes:
    """Return the body of a request; each `Path` in the inputs becomes a data URI.

    Raises:
        RefusedInput: a file cannot be read, the files are too large, or a value is no JSON.
    """
    files = _Files(most_bytes)
    found = {name: files.placed(value, (name,)) for name, value in inputs.items()}
    try:
        return _json({"input": found})
    except (TypeError, ValueError):
        raise RefusedInput([*_no_json(found)]) from None


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
    download = Download(path, offered)
    try:
        download.write(content)
        return download.finish()
    finally:
        download.drop()


class _Files:
    """Reads the files of one request, which have a number of bytes together."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes

    def placed(self, value: object, place: tuple[str, ...]) -> object:
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


class Download:
    """Writes a file, or into a folder under the offered name; whole or not at all.

    Args:
        path: a file or a folder.
        offered: the name that the server offers; a path in it does not count.

    Raises:
        FileNotWritten: the file cannot be written.
    """

    def __init__(self, path: Path, offered: str) -> None:
        self.path = path / Path(offered).name if path.is_dir() else path
        self._part = self.path.with_name(f"{self.path.name}.part")
        try:
            self._file: BinaryIO = self._part.open("wb")
        except OSError as error:
            raise self._failure(error) from error

    def write(self, piece: bytes) -> None:
        """Add a piece."""
        try:
            self._file.write(piece)
        except OSError as error:
            raise self._failure(error) from error

    def finish(self) -> Path:
        """Give the file its name; return the path."""
        try:
            self._file.close()
            self._part.replace(self.path)
        except OSError as error:
            raise self._failure(error) from error
        return self.path

    def drop(self) -> None:
        """Remove the file unless it is finished."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def _failure(self, error: OSError) -> FileNotWritten:
        return FileNotWritten(f"{self.path} cannot be written: {error.strerror}.")
