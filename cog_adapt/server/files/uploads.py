"""Files that callers have uploaded as inputs: each is its owner's, and expires.

They lie in the data folder; servers of one PostgreSQL keep them there (`upload_rows.py`). A file is
a folder of its content and a description; it appears by one rename, so that no reader sees half.
"""

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from cog_adapt.deletion_clock import deletion_now
from cog_adapt.machine import free_disk_bytes
from cog_adapt.server.errors import DiskFull
from cog_adapt.server.settings import Settings
from cog_adapt.shared_settings import share_of

MOST_FILES: Final = 1000
_ID: Final = re.compile(r"file-[0-9a-f]{32}")
_URL: Final = re.compile(r"https?://[^?#]+/v1/files/(file-[0-9a-f]{32})")
_CONTENT, _ABOUT = "content", "about.json"
PORTION: Final = 2**20  # bytes read at once
UNFINISHED: Final = timedelta(hours=1)  # after which an upload was cut short
_TEMPORARY = "new-"


class Upload(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a file. Times are UTC.

    Attributes:
        id: random, and no secret.
        owner: "" if no keys are set.
        name: as the caller sent it.
        size: in bytes.
        sha256: of the content, in hex.
        metadata: the caller's.
    """

    id: str
    owner: str
    name: str
    content_type: str
    size: int
    sha256: str
    metadata: dict[str, Any]
    created_at: datetime
    expires_at: datetime


def id_in_url(url: str) -> str | None:
    """Return the id of the file that a URL names, at whatever host; None for another URL."""
    match = _URL.fullmatch(url)
    return match[1] if match else None


def is_upload_id(text: str) -> bool:
    """Return whether a text may be the id of a file."""
    return _ID.fullmatch(text) is not None


def uploads_folder(settings: Settings) -> Path:
    """Return the folder of the files."""
    return settings.data_dir.absolute() / "uploads"


class Uploads:
    """The files in a folder, which several processes may use concurrently.

    Args:
        folder: made with the first file.
        most: bytes of all; None: a tenth of the disk's free bytes.
        share: of these for one owner with a name.
        hours: after which a file expires.

    Attributes:
        life: of a file.
    """

    def __init__(
        self, folder: Path, *, most: int | None = None, share: float = 1.0, hours: float = 1.0
    ) -> None:
        self._folder = folder
        self._most = most
        self._share = share
        self.life = timedelta(hours=hours)

    def most_of(self, owner: str) -> int:
        """Return the bytes that an owner's files may have."""
        most = self._most
        if most is None:
            most = (free_disk_bytes(self._folder) + self.used()) // 10
        return share_of(most, self._share) if owner else most

    def refuse_if_full(self, owner: str, size: int) -> None:
        """Refuse a file that has no room.

        Raises:
            DiskFull: the owner's files, or all, are too many or too large.
        """
        count, used = self.counted(owner)
        if count >= MOST_FILES:
            raise DiskFull(f"you have {count} files, the most allowed. Delete some of them.")
        most = self.most_of(owner)
        if used + size > most:
            raise DiskFull(
                f"your files have {used} bytes, and {size} more exceed your limit of {most} "
                "(UPLOAD_BYTES and OWNER_SHARE). Delete files, or wait until they expire."
            )
        everything = self.used()
        if everything + size > self.most_of(""):
            raise DiskFull(
                f"all files have {everything} bytes, and {size} more exceed UPLOAD_BYTES. "
                "Try later."
            )

    def add(
        self,
        owner: str,
        source: BinaryIO,
        *,
        name: str,
        content_type: str,
        metadata: dict[str, Any],
    ) -> Upload:
        """Keep a file.

        Args:
            owner: of the file.
            source: a binary file, read from its beginning.
            name: as the caller sent it.
            content_type: the same.
            metadata: the same.

        Raises:
            DiskFull: it has no room, or cannot be written.
        """
        size, sha256 = _measure(source)
        created_at = datetime.now(UTC)
        upload = Upload(
            id=f"file-{secrets.token_hex(16)}",
            owner=owner,
            name=name,
            content_type=content_type,
            size=size,
            sha256=sha256,
            metadata=metadata,
            created_at=created_at,
            expires_at=created_at + self.life,
        )
        try:
            self.keep(upload, source)
        except OSError as error:
            cause = error.strerror or error
            raise DiskFull(f"the file cannot be kept: {cause}. Try later.") from error
        return upload

    def keep(self, upload: Upload, source: BinaryIO) -> None:
        """Keep a file that is described already (OSError, DiskFull)."""
        folder = self._of(upload.owner)
        temporary = folder / f"{_TEMPORARY}{upload.id}"
        try:
            temporary.mkdir(mode=0o700, parents=True)
            self.refuse_if_full(upload.owner, upload.size)
            with (temporary / _CONTENT).open("xb") as file:
                file.writelines(portions_of(source))
            (temporary / _ABOUT).write_bytes(msgspec.json.encode(upload))
            temporary.rename(folder / upload.id)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def get(self, owner: str, identifier: str) -> Upload | None:
        """Return an owner's file; None if there is none, or it has expired."""
        if not is_upload_id(identifier):
            return None
        upload = _read(self._of(owner) / identifier)
        return upload if upload is not None and datetime.now(UTC) < upload.expires_at else None

    def open(self, upload: Upload) -> BinaryIO:
        """Open a file's content.

        Raises:
            FileNotFoundError: the file has been removed.
        """
        return (self._of(upload.owner) / upload.id / _CONTENT).open("rb")

    def of_owner(self, owner: str) -> list[Upload]:
        """Return an owner's files, newest first."""
        found = (self.get(owner, name) for name in _names(self._of(owner)))
        return sorted(
            (each for each in found if each is not None),
            key=lambda each: (each.created_at, each.id),
            reverse=True,
        )

    def remove(self, owner: str, identifier: str) -> bool:
        """Remove an owner's file; return whether there was one."""
        if self.get(owner, identifier) is None:
            return False
        shutil.rmtree(self._of(owner) / identifier, ignore_errors=True)
        return True

    def remove_all(self, owner: str) -> int:
        """Remove an owner's files; return their number."""
        number = len(self.of_owner(owner))
        shutil.rmtree(self._of(owner), ignore_errors=True)
        return number

    def prune(self) -> None:
        """Remove the files that have expired, and uploads that were cut short."""
        now = deletion_now()
        for folder in self._folders():
            if _is_over(folder, now):
                shutil.rmtree(folder, ignore_errors=True)

    def _of(self, owner: str) -> Path:
        """Return the folder of an owner, whose name may hold what no file name may."""
        return self._folder / hashlib.sha256(owner.encode()).hexdigest()[:32]

    def counted(self, owner: str) -> tuple[int, int]:
        """Return the number of an owner's files, and their bytes."""
        own = self.of_owner(owner)
        return len(own), sum(each.size for each in own)

    def used(self) -> int:
        """Return the bytes of all files, also of those that are just being written."""
        return sum(_size_at(folder / _CONTENT) for folder in self._folders())

    def _folders(self) -> Iterator[Path]:
        owners = (self._folder / name for name in _names(self._folder))
        return (owner / name for owner in owners for name in _names(owner))


def _size_at(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _read(folder: Path) -> Upload | None:
    try:
        return msgspec.json.decode((folder / _ABOUT).read_bytes(), type=Upload)
    except (OSError, msgspec.DecodeError):
        return None


def _is_over(folder: Path, now: datetime) -> bool:
    upload = _read(folder)
    if upload is not None:
        return upload.expires_at <= now
    try:
        changed = folder.stat().st_mtime
    except OSError:
        return False
    return datetime.fromtimestamp(changed, UTC) + UNFINISHED < now


def portions_of(source: BinaryIO) -> Iterator[bytes]:
    """Yield a file's content from its beginning, `PORTION` bytes at a time."""
    source.seek(0)
    while portion := source.read(PORTION):
        yield portion


def _measure(source: BinaryIO) -> tuple[int, str]:
    """Return the bytes of a file, and their SHA-256."""
    digest, size = hashlib.sha256(), 0
    for portion in portions_of(source):
        digest.update(portion)
        size += len(portion)
    return size, digest.hexdigest()
