"""The calls that each server of a database has admitted, for limits that hold over all of them."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select

from cog_adapt.server.records.server_tables import rate_counts
from cog_adapt.server.records.writer import Writer

_MOST_ROWS: Final = 100_000  # that a server reads of what was admitted before its start
_OVERLAP: Final = timedelta(seconds=60)  # a row may be committed so long after its time
_CLEANING: Final = 64  # exchanges between two deletions of old rows


class AdmittedCalls(NamedTuple):
    """Calls of one caller that another server has admitted.

    Attributes:
        caller: an owner or an address.
        calls: their number.
        age: seconds since then, by the database's clock.
    """

    caller: str
    calls: int
    age: float


class RateCounts:
    """Exchanges the numbers of admitted calls with the other servers.

    Args:
        server: the id of this server.
        writer: of the records.
    """

    def __init__(self, server: str, writer: Writer) -> None:
        self._server = server
        self._writer = writer
        self._tick = 0
        self._seen: dict[str, int] = {}

    async def exchange(self, admitted: Mapping[str, int], longest: float) -> list[AdmittedCalls]:
        """Write this server's calls since the last exchange, and return those of the others.

        Args:
            admitted: their numbers, by caller.
            longest: the seconds for which they count.

        Raises:
            StorageError: the database cannot be used; nothing was written.
        """
        self._tick += 1
        run = partial(self._exchange, admitted=admitted, longest=timedelta(seconds=longest))
        rows = await self._writer.call(run)
        fresh = [row for row in rows if row.tick > self._seen.get(row.server, 0)]
        for row in fresh:
            self._seen[row.server] = max(row.tick, self._seen.get(row.server, 0))
        return [AdmittedCalls(row.caller, row.calls, float(row.age)) for row in fresh]

    def _exchange(
        self, connection: Connection, admitted: Mapping[str, int], longest: timedelta
    ) -> list["_Row"]:
        now = connection.execute(select(func.clock_timestamp())).scalar_one()
        if admitted:
            common = {"server": self._server, "tick": self._tick, "counted_at": now}
            rows = [common | {"caller": who, "calls": number} for who, number in admitted.items()]
            connection.execute(insert(rate_counts), rows)
        if self._tick % _CLEANING == 1:
            connection.execute(delete(rate_counts).where(rate_counts.c.counted_at < now - longest))
        since = now - (longest if self._tick == 1 else min(longest, _OVERLAP))
        query = (
            select(rate_counts)
            .where(rate_counts.c.counted_at >= since, rate_counts.c.server != self._server)
            .order_by(rate_counts.c.counted_at.desc())
            .limit(_MOST_ROWS)
        )
        return [
            _Row(
                server=row.server,
                tick=row.tick,
                caller=row.caller,
                calls=row.calls,
                age=max(0.0, (now - row.counted_at).total_seconds()),
            )
            for row in connection.execute(query)
        ]


class _Row(NamedTuple):
    server: str
    tick: int
    caller: str
    calls: int
    age: float
