"""The files of the built page, read once: a request names a file, never a path."""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "page"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".woff2": "font/woff2",
}
_UNKNOWN = "application/octet-stream"


@dataclass(frozen=True)
class PageFile:
    """A file of the page.

    Attributes:
        content: the bytes of the file.
        zipped: the bytes for clients that accept gzip.
        media_type: the media type of the file's suffix.
        etag: a text that changes with the content; weak, since both forms share one etag.
    """

    content: bytes
    zipped: bytes
    media_type: str
    etag: str

    @classmethod
    def read(cls, path: Path) -> "PageFile":
        """Read a file."""
        content = path.read_bytes()
        digest = hashlib.sha256(content).hexdigest()[:32]
        media_type = _TYPES.get(path.suffix, _UNKNOWN)
        return cls(
            content=content,
            zipped=gzip.compress(content, mtime=0),
            media_type=media_type,
            etag=f'W/"{digest}"',
        )


@dataclass(frozen=True)
class PageFiles:
    """The page as `make page` builds it.

    Attributes:
        index: the page; None if the page is not built.
        assets: the files that the page loads, by name.
    """

    index: PageFile | None
    assets: dict[str, PageFile]

    @classmethod
    def read(cls, folder: Path) -> "PageFiles":
        """Read `index.html` and `assets/` of a folder, if they exist."""
        index, assets = folder / "index.html", folder / "assets"
        found = [path for path in assets.glob("*") if path.is_file()]
        whole = PageFile.read(index) if index.is_file() else None
        return cls(whole, {path.name: PageFile.read(path) for path in found})
