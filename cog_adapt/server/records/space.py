"""The disk space of the records: tables and large texts, in all and by owner."""

import asyncio
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Table, func, select

from cog_adapt.machine import free_disk_bytes
from cog_adapt.owner_bytes import OwnerShares
from cog_adapt.server.errors import DiskFull
from cog_adapt.server.postgresql import is_postgresql
from cog_adapt.server.records.blobs import Blobs
from cog_adapt.server.records.tables import BLOB_COLUMNS, deliveries, records
from cog_adapt.server.settings import Settings

ELSEWHERE: Final = 64 * 2**30  # bytes allowed by default on the disk of a database server
LOW: Final = 0.9  # share of the limit from which the oldest records are removed
NAME: Final = "records"


class SpaceUse(NamedTuple):
    """The bytes of the records.

    Attributes:
        used: bytes of all.
        by_owner: of each owner with a name.
    """

    used: int
    by_owner: Mapping[str, int]


class RecordSpace:
    """The bytes of all records: measured periodically, counted in between.

    Args:
        most: bytes allowed; None: half of (free + used), measured at the start.
        free: bytes of the disk at the start; None: it is a database server's, which does not tell.
            Then `ELSEWHERE` are allowed, or twice what is there at the start if that is more.
        share: of them for one owner; an owner without a name may use all.

    Attributes:
        low: set when the oldest records should be deleted.
    """

    name = NAME

    def __init__(
        self, most: float | None = math.inf, free: int | None = 0, share: float = 1.0
    ) -> None:
        self._share = share
        self._by_owner: OwnerShares[float] = OwnerShares(math.inf, math.inf)
        self.limit(math.inf if most is None else most)
        self._is_open = most is None
        self._free = free
        self.low = asyncio.Event()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings) -> "RecordSpace":
        """Make it from the settings; Cog has no limit."""
        if settings.strict_cog:
            return cls()
        most = settings.record_bytes
        if most is None and settings.disk_bytes is not None:
            most = settings.disk_bytes // 2
        url = settings.database_url
        is_elsewhere = url is not None and is_postgresql(url)
        free = None if is_elsewhere else free_disk_bytes(settings.data_dir)
        return cls(most, free, settings.owner_share)

    def limit(self, most: float) -> None:
        """Allow so many bytes from now on."""
        self._by_owner.limit(most, most * self._share, most_of_nobody=most)

    @property
    def most(self) -> float:
        """The bytes of all records that are allowed."""
        return self._by_owner.most

    @property
    def used(self) -> int:
        """The bytes of all records, as measured and counted since."""
        return self._by_owner.bytes

    @property
    def excess(self) -> float:
        """The bytes above the limit."""
        return max(0.0, self.used - self.most * LOW)

    @property
    def most_of_owner(self) -> float:
        """The most bytes of one owner with a name."""
        return self._by_owner.most_of_owner

    @property
    def largest(self) -> int:
        """The bytes of the named owner who uses the most."""
        return self._by_owner.largest

    @property
    def excess_by_owner(self) -> dict[str, float]:
        """The bytes of each owner above its share."""
        limit = self.most_of_owner * LOW
        return {
            owner: used - limit for owner, used in self._by_owner.named().items() if used > limit
        }

    def add(self, sizes: Mapping[str, int]) -> None:
        """Count written bytes by owner; a replaced row counts twice until the next measurement."""
        with self._lock:
            for owner, size in sizes.items():
                self._by_owner.count(owner, size)

    def set(self, measured: SpaceUse) -> None:
        """Replace the count by a measurement."""
        if self._is_open:
            self.limit(
                max(ELSEWHERE, 2 * measured.used)
                if self._free is None
                else (self._free + measured.used) // 2
            )
            self._is_open = False
        named = sum(measured.by_owner.values())
        with self._lock:
            self._by_owner.reset({**measured.by_owner, "": measured.used - named})

    def refuse_if_full(self, size: int, owner: str = "") -> None:
        """Refuse bytes that have no room. The method runs on the event loop.

        Raises:
            DiskFull: the bytes exceed the disk's room, or the owner's share of the room.
        """
        own = self._by_owner.bytes_of(owner)
        limit = self._by_owner.most_of(owner)
        if self.used + size > self.most * LOW or own + size > limit * LOW:
            self.low.set()
        if owner and self._by_owner.lacking(owner, size):
            raise DiskFull(
                f"records: your {own} bytes on disk and {size} more exceed the {limit:.0f} that "
                "one owner may use (RECORD_BYTES and OWNER_SHARE). Your oldest are being removed: "
                "try again in a minute, or DELETE what you need no longer."
            )
        if self.used + size > self.most:
            raise DiskFull(
                f"records: {self.used} bytes are on disk and {size} more exceed {self.most:.0f} "
                "(RECORD_BYTES). The oldest are being removed: try again in a minute, or ask the "
                "operator for more."
            )


class TextCount:
    """Counts the text of rows while the rows are written, with few rows in memory at a time.

    Attributes:
        sizes: bytes by owner.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self.sizes: Counter[str] = Counter()

    def pass_on(self, rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the rows; each row and its large texts are made when it is requested."""
        written = self._blobs.written
        for row in rows:
            texts = sum(len(value) for value in row.values() if isinstance(value, str))
            self.sizes[row["owner"]] += texts + self._blobs.written - written
            written = self._blobs.written
            yield row


def measure(connection: Connection, size_of: Callable[[Iterable[str] | None], int]) -> SpaceUse:
    """Measure the bytes of rows and files.

    Args:
        connection: a connection to the database.
        size_of: a function that returns the bytes of the files of these names; None: of all files.
    """
    tables = measure_tables(connection)
    texts = _measure_owners(connection)
    named, whole = _files_of_owners(connection), sum(texts.values())
    by_owner = {
        owner: tables * text // whole + size_of(named.get(owner, ()))
        for owner, text in texts.items()
        if owner  # rows take pages besides their texts; each owner's share follows its texts
    }
    return SpaceUse(tables + size_of(None), by_owner)


def _measure_owners(connection: Connection) -> Counter[str]:
    """Return the bytes of texts in each owner's rows; empty if no owner has a name."""
    sizes: Counter[str] = Counter()
    named = select(records.c.owner).where(records.c.owner > "").limit(1)
    if connection.scalar(named) is None:
        return sizes
    for table in (records, deliveries):
        query = select(table.c.owner, _sum_of(connection, table)).group_by(table.c.owner)
        sizes.update({owner: int(size) for owner, size in connection.execute(query)})
    return sizes


def _files_of_owners(connection: Connection) -> dict[str, set[str]]:
    named: dict[str, set[str]] = {}
    for column in BLOB_COLUMNS:
        owner: Any = column.table.c.owner
        query = select(owner, column).where(column.is_not(None), owner > "")
        for name, digest in connection.execute(query):
            named.setdefault(name, set()).add(digest)
    return named


def _sum_of(connection: Connection, table: Table) -> Any:  # noqa: ANN401 - SQL's number
    is_sqlite = connection.dialect.name == "sqlite"
    size_of = func.length if is_sqlite else func.pg_column_size
    sizes: list[Any] = [func.coalesce(size_of(column), 0) for column in table.columns]
    return func.coalesce(func.sum(sum(sizes[1:], sizes[0])), 0)


def measure_tables(connection: Connection) -> int:
    """Return the bytes of all rows; free pages of the file do not count."""
    if connection.dialect.name == "sqlite":
        pragmas = ("page_count", "freelist_count", "page_size")
        count, free, size = (_pragma(connection, name) for name in pragmas)
        return (count - free) * size
    tables = (records, deliveries)
    return sum(connection.scalar(select(_sum_of(connection, table))) or 0 for table in tables)


def _pragma(connection: Connection, name: str) -> int:
    value: int = connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
    return value
