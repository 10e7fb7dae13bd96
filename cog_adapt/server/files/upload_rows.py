"""Files that callers have uploaded, in PostgreSQL: each of its servers finds them.

The tables are those of `records/server_tables.py`; a worker reads them too, so no SQLAlchemy is
used.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from cog_adapt.deletion_clock import deletion_now
from cog_adapt.server.files.uploads import (
    PORTION,
    UNFINISHED,
    Upload,
    Uploads,
    is_upload_id,
    portions_of,
    uploads_folder,
)
from cog_adapt.server.postgresql import is_postgresql, transaction
from cog_adapt.server.settings import Settings

_LOCK: Final = 0x636F6A  # held while room is looked for; any number that no other lock has


class UploadRows(Uploads):
    """The files in the tables `uploads` and `upload_parts`.

    A file that an earlier release has kept in the folder is found too. Methods raise OSError while
    the database is away.

    Args:
        url: of the PostgreSQL.
        folder: as `Uploads` has it.
        limits: as `Uploads` has them.
    """

    def __init__(self, url: str, folder: Path, **limits: Any) -> None:  # noqa: ANN401 - see above
        super().__init__(folder, **limits)
        self._url = url

    def keep(self, upload: Upload, source: BinaryIO) -> None:
        """Keep a file that is described already; see `Uploads.keep`."""
        self._reserve(upload)
        self._fill(upload, source)

    def get(self, owner: str, identifier: str) -> Upload | None:
        """Return an owner's file; None if there is none, or it has expired."""
        if not is_upload_id(identifier):
            return None
        with transaction(self._url) as cursor:
            cursor.execute(
                "SELECT about FROM uploads WHERE id = %s AND owner = %s AND is_whole "
                "AND expires_at > %s",
                (identifier, owner, datetime.now(UTC)),
            )
            row = cursor.fetchone()
        return super().get(owner, identifier) if row is None else _read(row[0])

    def open(self, upload: Upload) -> BinaryIO:
        """Open a file's content; it lies in a temporary file.

        Raises:
            FileNotFoundError: the file has been removed.
        """
        with ExitStack() as opened:
            file: Any = opened.enter_context(tempfile.TemporaryFile())
            for portion in self._portions(upload):
                file.write(portion)
            if file.tell() == upload.size:
                file.seek(0)
                opened.pop_all()
                whole: BinaryIO = file
                return whole
        return super().open(upload)

    def of_owner(self, owner: str) -> list[Upload]:
        """Return an owner's files, newest first."""
        with transaction(self._url) as cursor:
            cursor.execute(
                "SELECT about FROM uploads WHERE owner = %s AND is_whole AND expires_at > %s",
                (owner, datetime.now(UTC)),
            )
            found = [_read(about) for (about,) in cursor.fetchall()]
        both = found + super().of_owner(owner)
        return sorted(both, key=lambda each: (each.created_at, each.id), reverse=True)

    def remove(self, owner: str, identifier: str) -> bool:
        """Remove an owner's file; return whether there was one."""
        gone = self._delete("owner = %s AND id = %s", owner, identifier)
        return super().remove(owner, identifier) or gone > 0

    def remove_all(self, owner: str) -> int:
        """Remove an owner's files; return their number."""
        return self._delete("owner = %s", owner) + super().remove_all(owner)

    def prune(self) -> None:
        """Remove the files that have expired, and uploads that were cut short."""
        now = deletion_now()
        self._delete(
            "expires_at <= %s OR (NOT is_whole AND expires_at <= %s)",
            now,
            now + self.life - UNFINISHED,
        )
        super().prune()

    def counted(self, owner: str) -> tuple[int, int]:
        """Return the number and bytes of an owner's files, also of those just being written."""
        with transaction(self._url) as cursor:
            cursor.execute(
                "SELECT count(*), coalesce(sum(size), 0) FROM uploads "
                "WHERE owner = %s AND expires_at > %s",
                (owner, datetime.now(UTC)),
            )
            count, size = cursor.fetchone()
        older = super().of_owner(owner)
        return count + len(older), int(size) + sum(each.size for each in older)

    def used(self) -> int:
        """Return the bytes of all files, also of those that are just being written."""
        with transaction(self._url) as cursor:
            cursor.execute("SELECT coalesce(sum(size), 0) FROM uploads")
            return int(cursor.fetchone()[0]) + super().used()

    def _reserve(self, upload: Upload) -> None:
        """Count a file before its content is written; servers look for room in turn."""
        with transaction(self._url) as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
            self.refuse_if_full(upload.owner, upload.size)
            cursor.execute(
                "INSERT INTO uploads (id, owner, about, size, expires_at, is_whole) "
                "VALUES (%s, %s, %s, %s, %s, false)",
                (
                    upload.id,
                    upload.owner,
                    msgspec.json.encode(upload).decode(),
                    upload.size,
                    upload.expires_at,
                ),
            )

    def _fill(self, upload: Upload, source: BinaryIO) -> None:
        with ExitStack() as reserved, transaction(self._url) as cursor:
            reserved.callback(self._delete, "id = %s", upload.id)
            for number, portion in enumerate(portions_of(source)):
                cursor.execute(
                    "INSERT INTO upload_parts (upload_id, number, content) VALUES (%s, %s, %s)",
                    (upload.id, number, portion),
                )
            cursor.execute("UPDATE uploads SET is_whole = true WHERE id = %s", (upload.id,))
            reserved.pop_all()

    def _portions(self, upload: Upload) -> Iterator[bytes]:
        """Yield a file's content, as far as it is there, a row at a time."""
        with transaction(self._url) as cursor:
            for number in range(-(-upload.size // PORTION)):
                cursor.execute(
                    "SELECT content FROM upload_parts WHERE upload_id = %s AND number = %s",
                    (upload.id, number),
                )
                yield from (content for (content,) in cursor.fetchall())

    def _delete(self, condition: str, *values: object) -> int:
        """Remove the rows that meet an SQL condition; return the number of files."""
        with transaction(self._url) as cursor:
            cursor.execute(f"DELETE FROM uploads WHERE {condition} RETURNING id", values)
            gone = [identifier for (identifier,) in cursor.fetchall()]
            cursor.execute("DELETE FROM upload_parts WHERE upload_id = ANY(%s)", (gone,))
        return len(gone)


def _read(about: str) -> Upload:
    return msgspec.json.decode(about, type=Upload)


def uploads_of(settings: Settings) -> Uploads:
    """Return the files of the servers of a database."""
    most = settings.upload_bytes
    if most is None and settings.disk_bytes is not None:
        most = settings.disk_bytes // 10
    limits = {"most": most, "share": settings.owner_share, "hours": settings.upload_hours}
    return open_uploads(uploads_folder(settings), settings.database_url, **limits)


def open_uploads(folder: Path, database: str | None, **limits: Any) -> Uploads:  # noqa: ANN401
    """Return the files in a folder, or in a PostgreSQL where there is one.

    Args:
        folder: of the files.
        database: DATABASE_URL.
        limits: as `Uploads` has them; none for reading alone.
    """
    if database is not None and is_postgresql(database):
        return UploadRows(database, folder, **limits)
    return Uploads(folder, **limits)
