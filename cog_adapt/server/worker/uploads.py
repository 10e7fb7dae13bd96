"""Puts a run()'s output file into the answer as a data URL, or uploads it to the upload URL."""

import base64
import io
import mimetypes
import os
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import httpx2

from cog_adapt.server.worker.mime_types import mime_type

_SECONDS = 25.0
_CHUNK = 2**20


class UploadError(Exception):
    """An output file did not reach the upload URL."""


class Destination(Protocol):
    """Turns a file into a URL."""

    def link(self, file: "FileContent") -> str:
        """Return the URL under which the client finds the file."""


@dataclass(frozen=True)
class FileContent:
    """An output file: a file on disk, or the content of an open file.

    Attributes:
        name: without folders; of an open file it only shows the type.
        source: a path or the bytes.
        path: of the file on disk, also of an open one; None for bytes in memory.
    """

    name: str
    source: Path | bytes
    path: Path | None = field(default=None, compare=False)

    @classmethod
    def of(cls, value: "os.PathLike[str] | io.IOBase") -> "FileContent":
        """Read the file that a returned value stands for.

        Raises:
            OSError: the file cannot be read.
        """
        if isinstance(value, os.PathLike):
            path = Path(value)
            with path.open("rb"):  # a missing file or a folder is an error, and not an empty output
                return cls(path.name, path, path)
        if value.seekable():
            value.seek(0)
        content: str | bytes = value.read()
        name = getattr(value, "name", "")
        path = Path(name) if isinstance(name, str) else Path()
        return cls(
            path.name,
            content.encode() if isinstance(content, str) else bytes(content),
            path if path.name else None,
        )

    @property
    def mime_type(self) -> str:
        """The MIME type, by the name's extension."""
        return mime_type(self.name)

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    def whole(self) -> bytes:
        """Return the whole content."""
        return self.source if isinstance(self.source, bytes) else self.source.read_bytes()

    def __iter__(self) -> Iterator[bytes]:
        """Yield the bytes in pieces, again from the start each time, as a redirect needs."""
        with (
            io.BytesIO(self.source) if isinstance(self.source, bytes) else self.source.open("rb")
        ) as file:
            while piece := file.read(_CHUNK):
                yield piece


class DataUrls:
    """Files inside the answer."""

    def link(self, file: FileContent) -> str:
        """Return the file as a data URL."""
        return f"data:{file.mime_type};base64,{base64.b64encode(file.whole()).decode()}"


class FileUploads:
    """Files PUT below a URL of the operator's.

    Args:
        url: a slash is added if there is none at its end.
        prediction_id: sent with each file.
    """

    def __init__(self, url: str, prediction_id: str) -> None:
        self._url = url if url.endswith("/") else f"{url}/"
        self._headers = {"x-prediction-id": prediction_id}
        self._count = 0

    def link(self, file: FileContent) -> str:
        """Return the final URL of the upload, without a query.

        Raises:
            UploadError: the upload was refused, or the URL cannot be reached.
        """
        url = self._url + urllib.parse.quote(self._name(file))
        self._count += 1
        headers = self._headers | {
            "content-type": file.mime_type,
            "content-length": str(file.size),
        }
        content: Any = file
        try:
            answer = httpx2.put(
                url, content=content, headers=headers, timeout=_SECONDS, follow_redirects=True
            )
        except httpx2.HTTPError as error:
            raise UploadError(f"upload request failed: {error}") from error
        if not answer.is_success:
            raise UploadError(
                f"upload returned status {answer.status_code} {answer.reason_phrase}".rstrip()
            )
        final = urllib.parse.urljoin(str(answer.url), answer.headers.get("location", ""))
        return final.partition("?")[0]

    def _name(self, file: FileContent) -> str:
        """Name an open file by its number, as coglet does."""
        if isinstance(file.source, Path):
            return file.name
        kind = mimetypes.guess_extension(file.mime_type) or ""
        return f"{self._count}{kind}"
