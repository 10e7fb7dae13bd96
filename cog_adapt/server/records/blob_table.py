"""Large texts in a table, which servers of one PostgreSQL share without a folder in common."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert

from cog_adapt.server.records.blobs import CHUNK, BlobFolder
from cog_adapt.server.records.retention import find_used
from cog_adapt.server.records.server_tables import blobs


class BlobTable:
    """The table `blobs`.

    Args:
        engine: of the database.
        folder: has the texts of earlier releases.
        serves_earlier: returns whether a server of an earlier release is alive, which reads files
            alone: until it has ended, each text is written to a file too.
    """

    def __init__(
        self, engine: Engine, folder: BlobFolder, serves_earlier: Callable[[], bool]
    ) -> None:
        self._engine = engine
        self._folder = folder
        self._serves_earlier = serves_earlier

    def write(self, digest: str, data: bytes) -> None:
        """Write a row (SQLAlchemyError)."""
        row = insert(blobs).values(
            digest=digest, content=data, size=len(data), changed_at=func.now()
        )
        changed = row.on_conflict_do_update(
            index_elements=["digest"],
            set_={name: row.excluded[name] for name in ("content", "size", "changed_at")},
        )
        with self._engine.begin() as connection:
            connection.execute(changed)
        if self._serves_earlier():
            self._folder.write(digest, data)

    def refresh(self, digest: str, size: int) -> bool:
        """Set the time of a row."""
        if self._serves_earlier() and not self._folder.refresh(digest, size):
            return False
        found = update(blobs).where(blobs.c.digest == digest, blobs.c.size == size)
        with self._engine.begin() as connection:
            return connection.execute(found.values(changed_at=func.now())).rowcount > 0

    def read(self, digest: str) -> bytes | None:
        """Return the content of a row, else of a file."""
        with self._engine.connect() as connection:
            found = connection.scalar(select(blobs.c.content).where(blobs.c.digest == digest))
        return self._folder.read(digest) if found is None else bytes(found)

    def size(self, digests: Sequence[str] | None) -> int:
        """Return the bytes of rows and files."""
        total = select(func.coalesce(func.sum(blobs.c.size), 0))
        with self._engine.connect() as connection:
            if digests is None:
                in_rows = int(connection.scalar(total) or 0)
            else:
                in_rows = sum(
                    int(connection.scalar(total.where(blobs.c.digest.in_(chunk))) or 0)
                    for chunk in _chunks(digests)
                )
        return in_rows + self._folder.size(digests)

    def times(self) -> Iterator[tuple[str, float]]:
        """Yield rows and files."""
        with self._engine.connect() as connection:
            rows = connection.execute(select(blobs.c.digest, blobs.c.changed_at)).all()
        yield from ((digest, changed_at.timestamp()) for digest, changed_at in rows)
        yield from self._folder.times()

    def remove(self, digests: Iterable[str]) -> None:
        """Remove rows and files."""
        gone = [*digests]
        with self._engine.begin() as connection:
            for chunk in _chunks(gone):
                connection.execute(delete(blobs).where(blobs.c.digest.in_(chunk)))
        self._folder.remove(gone)


def move_texts(engine: Engine, folder: Path) -> int:
    """Move the texts that rows name from a folder into the table; return their number.

    A move may be repeated after it was cut off.

    Args:
        engine: of a PostgreSQL, with its tables.
        folder: of the texts.
    """
    if not folder.is_dir():
        return 0
    files, moved = BlobFolder(folder), 0
    table = BlobTable(engine, files, lambda: False)
    for chunk in _chunks([digest for digest, _ in files.times()]):
        with engine.connect() as connection:
            used = find_used(connection, [*chunk])
        moved += sum(_move(digest, files, table) for digest in sorted(used))
    return moved


def _move(digest: str, files: BlobFolder, table: BlobTable) -> bool:
    data = files.read(digest)
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        return False
    if not table.refresh(digest, len(data)):
        table.write(digest, data)
    files.remove([digest])
    return True


def _chunks(digests: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(digests), CHUNK):
        yield digests[start : start + CHUNK]
