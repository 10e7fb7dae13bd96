"""Large texts as files named after their SHA-256; the database holds only the name."""

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path

CHUNK = 500


class Blobs:
    """A folder of texts, which several threads and processes may use concurrently.

    Attributes:
        written: bytes put so far.

    Writes are not synced. After a power cut a file may be incomplete; its name reveals it.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self.written = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def is_large(self, text: str) -> bool:
        """Return whether a text has more bytes than the limit."""
        return len(text) * 4 > self._limit and len(_to_bytes(text)) > self._limit

    def put(self, text: str) -> str:
        """Write a text unless its file exists.

        Returns:
            the text's SHA-256 in hex.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        data = _to_bytes(text)
        digest = hashlib.sha256(data).hexdigest()
        target = self._folder / digest
        try:
            if target.stat().st_size == len(data):
                os.utime(target)  # a sweep spares new files; the row for this one follows
                return digest
        except FileNotFoundError:
            pass
        _write(target, data)
        self.written += len(data)
        return digest

    def size(self, names: Iterable[str] | None = None) -> int:
        """Return the bytes of these files, or of all; those that are gone have none."""
        if names is None:
            names = [entry.name for entry in os.scandir(self._folder)]
        return sum(_size_of(self._folder / name) for name in names)

    def get(self, digest: str) -> str | None:
        """Return the text, or None if its file is missing or damaged."""
        try:
            data = (self._folder / digest).read_bytes()
        except FileNotFoundError:
            return None
        is_whole = hashlib.sha256(data).hexdigest() == digest
        return data.decode(errors="surrogatepass") if is_whole else None

    def sweep(self, find_used: Callable[[list[str]], set[str]], min_age: float) -> int:
        """Remove the files that no row names.

        Args:
            find_used: returns those of the given names that the database has.
            min_age: seconds; younger files may belong to a row that is being written.

        Returns:
            the number of files removed.
        """
        before = time.time() - min_age
        old = [entry.name for entry in os.scandir(self._folder) if entry.stat().st_mtime < before]
        removed = 0
        for start in range(0, len(old), CHUNK):
            names = old[start : start + CHUNK]
            for name in set(names) - find_used(names):
                (self._folder / name).unlink(missing_ok=True)
                removed += 1
        return removed


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _write(target: Path, data: bytes) -> None:
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        part.write_bytes(data)
        part.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
