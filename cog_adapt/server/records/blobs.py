"""Large texts as files named after their SHA-256; the database holds only the name."""

import contextlib
import hashlib
import os
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from cog_adapt.deletion_clock import deletion_time

CHUNK = 500
_MOST_KNOWN = 10_000


class Blobs:
    """A folder of texts, which several threads and processes may use concurrently.

    Attributes:
        written: bytes put so far.

    Writes are not synced. After a power cut a file may be incomplete; its name reveals it. An
    owner's text is written even if another owner has written it, so that the time reveals nothing.
    """

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._known: OrderedDict[tuple[str, str], None] = OrderedDict()
        self.written = 0
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

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
        """
        data = _to_bytes(text)
        digest = hashlib.sha256(data).hexdigest()
        target = self._folder / digest
        if (owner, digest) not in self._known or not _refresh(target, len(data)):
            _write(target, data)
            self.written += len(data)
            self._known[owner, digest] = None
            if len(self._known) > _MOST_KNOWN:
                self._known.popitem(last=False)
        return digest

    def size(self, names: Iterable[str] | None = None) -> int:
        """Return the bytes of these files, or of all; missing files count 0."""
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
        before = deletion_time() - min_age
        old = [name for name, changed in self._times() if changed < before]
        return self.remove_unused(old, find_used)

    def changed_within(self, seconds: float) -> list[str]:
        """Return the names of younger files; older ones were seen by periodic sweeps."""
        after = time.time() - seconds
        return [name for name, changed in self._times() if changed >= after]

    def _times(self) -> Iterator[tuple[str, float]]:
        for entry in os.scandir(self._folder):
            with contextlib.suppress(FileNotFoundError):  # another server has removed it
                yield entry.name, entry.stat().st_mtime

    def remove_unused(self, old: Sequence[str], find_used: Callable[[list[str]], set[str]]) -> int:
        """Remove those of these files that no row names; return their number."""
        removed = 0
        for start in range(0, len(old), CHUNK):
            names = list(old[start : start + CHUNK])
            unused = set(names) - find_used(names)
            self.remove(unused)
            removed += len(unused)
        return removed

    def remove(self, digests: Iterable[str]) -> None:
        """Remove files; they must be written again when they are put again."""
        gone = frozenset(digests)
        for owner, digest in [key for key in list(self._known) if key[1] in gone]:
            self._known.pop((owner, digest), None)
        for digest in gone:
            (self._folder / digest).unlink(missing_ok=True)


def _size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _refresh(target: Path, size: int) -> bool:
    """Protect a file from the next sweep, as its row follows; return whether it is complete."""
    try:
        if target.stat().st_size != size:
            return False
        os.utime(target)
    except FileNotFoundError:
        return False
    return True


def _write(target: Path, data: bytes) -> None:
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}")
    try:
        part.write_bytes(data)
        part.replace(target)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise
