"""Reads records page by page, newest first; a page does not change when new ones arrive."""

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Select, literal, select, tuple_

from cog_adapt.server.errors import InputError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.record import Page
from cog_adapt.server.records.rows import to_record
from cog_adapt.server.records.tables import Moment, records


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last record of the page before."""

    created_at: datetime
    id: str

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def to_query(kind: Kind, statuses: Sequence[str], cursor: str | None, limit: int) -> "PageQuery":
    """Check the parameters, and make the query of a page.

    Raises:
        InputError: the cursor was not made here.
    """
    return PageQuery(kind, tuple(statuses), _decode(cursor), limit)


class PageQuery(msgspec.Struct, frozen=True):
    """The query of one page."""

    kind: Kind
    statuses: tuple[str, ...]
    cursor: _Cursor | None
    limit: int

    def read(self, connection: Connection) -> Page:
        """Read the page; large texts are only references."""
        found = connection.execute(self._select()).mappings().all()
        rows = found[: self.limit]
        cursor = None
        if len(found) > self.limit:
            cursor = _Cursor(rows[-1]["created_at"], rows[-1]["id"]).encode()
        return Page([to_record(row, None) for row in rows], cursor)

    def _select(self) -> Select[Any]:
        place = tuple_(records.c.created_at, records.c.id)
        query = select(records).where(records.c.kind == self.kind).limit(self.limit + 1)
        if self.statuses:
            query = query.where(records.c.status.in_(self.statuses))
        if self.cursor is not None:
            border = tuple_(literal(self.cursor.created_at, Moment), literal(self.cursor.id))
            query = query.where(place < border)
        return query.order_by(records.c.created_at.desc(), records.c.id.desc())


def _decode(cursor: str | None) -> _Cursor | None:
    if cursor is None:
        return None
    try:
        data = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        decoded = msgspec.json.decode(data, type=_Cursor)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise InputError(
            f"cursor {cursor[:80]!r} is none of this server's; leave it out for the first page"
        ) from error
    if decoded.created_at.tzinfo is None or "\0" in decoded.id:
        raise InputError(f"cursor {cursor[:80]!r} is none of this server's; leave it out")
    return decoded
