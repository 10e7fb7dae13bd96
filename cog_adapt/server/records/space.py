"""How much of the disk the records take: tables and large texts."""

import asyncio
import math
import threading
from typing import Any, Final

from sqlalchemy import Connection, func, select

from cog_adapt.server.budget import free_disk_bytes
from cog_adapt.server.errors import DiskFull
from cog_adapt.server.records.tables import deliveries, records
from cog_adapt.server.settings import Settings

LOW: Final = 0.9  # of the limit; from here on the oldest records give way
NAME: Final = "records"


class RecordSpace:
    """The bytes of all records: measured now and then, counted in between.

    Args:
        most: bytes allowed; None: half of what is free and of what is used at the first look.
        free: bytes of the disk at the start.

    Attributes:
        low: set when the oldest records should give way.
    """

    name = NAME

    def __init__(self, most: float | None = math.inf, free: int = 0) -> None:
        self.most = math.inf if most is None else most
        self._free = free if most is None else None
        self.used = 0
        self.low = asyncio.Event()
        self._lock = threading.Lock()

    @classmethod
    def of(cls, settings: Settings) -> "RecordSpace":
        """Make it by the settings; Cog has no limit."""
        if settings.strict_cog:
            return cls()
        return cls(settings.record_bytes, free_disk_bytes(settings.data_dir))

    @property
    def excess(self) -> float:
        """How many bytes should give way."""
        return max(0.0, self.used - self.most * LOW)

    def add(self, size: int) -> None:
        """Count what was written; a row that replaces another counts twice until it is measured."""
        with self._lock:
            self.used += size

    def set(self, used: int) -> None:
        """Note what was measured."""
        with self._lock:
            self.used = used
        if self._free is not None:
            self.most, self._free = (self._free + used) // 2, None

    def refuse_if_full(self, size: int) -> None:
        """Refuse what has no room. Runs on the event loop.

        Raises:
            DiskFull: there is no room for so many bytes.
        """
        if self.used + size > self.most * LOW:
            self.low.set()
        if self.used + size > self.most:
            raise DiskFull(
                f"records: {self.used} bytes are on disk and {size} more exceed {self.most:.0f} "
                "(RECORD_BYTES). The oldest are being removed: try again in a minute, or ask the "
                "operator for more."
            )


def measure_tables(connection: Connection) -> int:
    """Return the bytes of all rows; free pages of the file do not count."""
    if connection.dialect.name == "sqlite":
        pragmas = ("page_count", "freelist_count", "page_size")
        count, free, size = (_pragma(connection, name) for name in pragmas)
        return (count - free) * size
    total = 0
    for table in (records, deliveries):
        sizes = [func.coalesce(func.pg_column_size(column), 0) for column in table.columns]
        whole: Any = sum(sizes[1:], sizes[0])
        total += connection.scalar(select(func.coalesce(func.sum(whole), 0))) or 0
    return total


def _pragma(connection: Connection, name: str) -> int:
    value: int = connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
    return value
