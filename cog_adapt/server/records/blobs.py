"""Large texts under their SHA-256: as files, or in a table that servers share.

The rows of records hold only the digest.
"""

import contextlib
import hashlib
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from cog_adapt.deletion_clock import deletion_time

CHUNK = 500
_MOST_KNOWN = 10_000


class BlobStore(Protocol):
    """Keeps bytes by digest; several threads and processes may use one concurrently."""

    def write(self, digest: str, data: bytes) -> None:
        """Write bytes, in place of earlier ones (OSError, SQLAlchemyError)."""

    def refresh(self, digest: str, size: int) -> bool:
        """Protect bytes from the next sweep, as their row follows; return whether all are there."""

    def read(self, digest: str) -> bytes | None:
        """Return the bytes, or None."""

    def size(self, digests: Sequence[str] | None) -> int:
        """Return the number of these bytes, or of all; missing ones count 0."""

    def times(self) -> Iterator[tuple[str, float]]:
        """Yield all digests, and the times of their last writes in seconds since the epoch."""

    def remove(self, digests: Iterable[str]) -> None:
        """Remove bytes, if they are there."""


class BlobFolder:
    """A folder of files, made with its parents.

    Writes are not synced. After a power cut a file may be incomplete; its name reveals it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, digest: str, data: bytes) -> None:
        """Write a file, whole or not at all."""
        target = self._folder / digest
        part = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
        try:
            part.write_bytes(data)
            part.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise

    def refresh(self, digest: str, size: int) -> bool:
        """Set the time of a file."""
        target = self._folder / digest
        try:
            if target.stat().st_size != size:
                return False
            os.utime(target)
        except FileNotFoundError:
            return False
        return True

    def read(self, digest: str) -> bytes | None:
        """Return the content of a file."""
        try:
            return (self._folder / digest).read_bytes()
        except FileNotFoundError:
            return None

    def size(self, digests: Sequence[str] | None) -> int:
        """Return the bytes of files."""
        names = os.listdir(self._folder) if digests is None else digests
        return sum(_size_of(self._folder / name) for name in names)

    def times(self) -> Iterator[tuple[str, float]]:
        """Yield all files, also parts of them."""
        for entry in os.scandir(self._folder):
            with contextlib.suppress(FileNotFoundError):  # another server has removed it
                yield entry.name, entry.stat().st_mtime

    def remove(self, digests: Iterable[str]) -> None:
        """Remove files."""
        for digest in digests:
            (self._folder / digest).unlink(missing_ok=True)


class Blobs:
    """Large texts, which several threads and processes may use concurrently.

    Args:
        store: keeps them.
        limit: bytes; a longer text is large.

    Attributes:
        written: bytes put so far.

    An owner's text is written even if another owner has written it, so that the time reveals
    nothing.
    """

    def __init__(self, store: BlobStore, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.written = 0

    def is_large(self, text: str) -> bool:
        """Return whether a text has more bytes than the limit."""
        if len(text) > self._limit:
            return True
        return len(text) * 4 > self._limit and len(_to_bytes(text)) > self._limit

    def put(self, text: str, owner: str = "") -> str:
        """Write a text unless its owner has written it before.

        Returns:
            the text's SHA-256 in hex.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
            SQLAlchemyError: the table cannot be written.
        """
        data = _to_bytes(text)
        digest = hashlib.sha256(data).hexdigest()
        if (owner, digest) not in self._known or not self._store.refresh(digest, len(data)):
            self._store.write(digest, data)
            self.written += len(data)
            self._known[owner, digest] = None
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return digest

    def size(self, names: Iterable[str] | None = None) -> int:
        """Return the bytes of these texts, or of all; missing ones count 0."""
        return self._store.size(None if names is None else [*names])

    def get(self, digest: str) -> str | None:
        """Return the text, or None if it is missing or damaged."""
        data = self._store.read(digest)
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            return None
        return data.decode(errors="surrogatepass")

    def sweep(self, find_used: Callable[[list[str]], set[str]], min_age: float) -> int:
        """Remove the texts that no row names.

        Args:
            find_used: returns those of the given names that the database has.
            min_age: seconds; younger texts may belong to a row that is being written.

        Returns:
            the number of texts removed.
        """
        before = deletion_time() - min_age
        old = [name for name, changed in self._store.times() if changed < before]
        return self.remove_unused(old, find_used)

    def changed_within(self, seconds: float) -> list[str]:
        """Return the names of younger texts; older ones were seen by periodic sweeps."""
        after = time.time() - seconds
        return [name for name, changed in self._store.times() if changed >= after]

    def remove_unused(self, old: Sequence[str], find_used: Callable[[list[str]], set[str]]) -> int:
        """Remove those of these texts that no row names; return their number."""
        removed = 0
        for start in range(0, len(old), CHUNK):
            names = list(old[start : start + CHUNK])
            unused = set(names) - find_used(names)
            self.remove(unused)
            removed += len(unused)
        return removed

    def remove(self, digests: Iterable[str]) -> None:
        """Remove texts; they must be written again when they are put again."""
        gone = frozenset(digests)
        for owner, digest in [key for key in list(self._known) if key[1] in gone]:
            self._known.pop((owner, digest), None)
        self._store.remove(gone)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
