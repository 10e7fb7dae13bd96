"""Reads records page by page, newest first; a page does not change when new ones arrive."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, literal, select, tuple_

from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.cursors import read_cursor, write_cursor
from cog_adapt.server.records.record import Page
from cog_adapt.server.records.rows import to_record
from cog_adapt.server.records.tables import Moment, records

_PLACE = (records.c.created_at, records.c.id, records.c.owner)


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last record of the page before."""

    created_at: datetime
    id: str
    owner: str = ""


_Times = tuple[datetime | None, datetime | None]


def to_query(  # noqa: PLR0913 - the filters are parameters
    kind: Kind,
    statuses: Sequence[str],
    cursor: str | None,
    limit: int,
    owner: str | None = "",
    created: _Times = (None, None),
) -> "PageQuery":
    """Check the parameters, and make the query of a page.

    Raises:
        InputError: the cursor was not made here.
    """
    return PageQuery(
        kind=kind,
        statuses=tuple(statuses),
        cursor=read_cursor(cursor, _Cursor),
        limit=limit,
        owner=owner,
        created=created,
    )


class PageQuery(msgspec.Struct, frozen=True):
    """The query of one page; without an owner, the query selects the records of all owners."""

    kind: Kind
    statuses: tuple[str, ...]
    cursor: _Cursor | None
    limit: int
    owner: str | None
    created: _Times = (None, None)

    def read(self, connection: Connection) -> Page:
        """Read the page; large texts are only references."""
        found = connection.execute(self._select()).mappings().all()
        rows = found[: self.limit]
        cursor = None
        if len(found) > self.limit:
            cursor = write_cursor(_Cursor(*(rows[-1][column.name] for column in _PLACE)))
        return Page([to_record(row, None) for row in rows], cursor)

    def _select(self) -> Select[Any]:
        query = select(records).where(records.c.kind == self.kind).limit(self.limit + 1)
        if self.owner is not None:
            query = query.where(records.c.owner == self.owner)
        if self.statuses:
            query = query.where(records.c.status.in_(self.statuses))
        first, end = self.created
        if first is not None:
            query = query.where(records.c.created_at >= first)
        if end is not None:
            query = query.where(records.c.created_at < end)
        if self.cursor is not None:
            border = tuple_(
                literal(self.cursor.created_at, Moment),
                literal(self.cursor.id),
                literal(self.cursor.owner),
            )
            query = query.where(tuple_(*_PLACE) < border)
        return query.order_by(*(column.desc() for column in _PLACE))
