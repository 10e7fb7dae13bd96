"""Reads records page by page, newest first; a page does not change when new ones arrive."""

import base64
import binascii
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Select, literal, select, tuple_

from cog_adapt.server.errors import InputError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.record import Page
from cog_adapt.server.records.rows import to_record
from cog_adapt.server.records.tables import Moment, records

MAX_LIMIT = 1000


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The record just before the beginning of a page."""

    direction: Literal["older", "newer"]
    created_at: datetime
    id: str

    def encode(self) -> str:
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def to_query(kind: Kind, statuses: Sequence[str], cursor: str | None, limit: int) -> "PageQuery":
    """Check the parameters, and make the query of a page.

    Raises:
        InputError: the cursor is malformed, or the limit is out of range.
    """
    if not 1 <= limit <= MAX_LIMIT:
        raise InputError(f"limit is {limit}; allowed: 1 to {MAX_LIMIT}")
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
        rows: list[Any] = list(found[: self.limit])
        has_more = len(found) > self.limit
        goes_back = self.cursor is not None and self.cursor.direction == "newer"
        if goes_back:
            rows.reverse()
        if not rows:
            return Page([])
        has_older, has_newer = (True, has_more) if goes_back else (has_more, self.cursor)
        return Page(
            [to_record(row, None) for row in rows],
            _cursor_at("older", rows[-1]) if has_older else None,
            _cursor_at("newer", rows[0]) if has_newer else None,
        )

    def _select(self) -> Select[Any]:
        place = tuple_(records.c.created_at, records.c.id)
        query = select(records).where(records.c.kind == self.kind).limit(self.limit + 1)
        if self.statuses:
            query = query.where(records.c.status.in_(self.statuses))
        if self.cursor is None:
            return query.order_by(records.c.created_at.desc(), records.c.id.desc())
        border = tuple_(literal(self.cursor.created_at, Moment), literal(self.cursor.id))
        if self.cursor.direction == "newer":
            return query.where(place > border).order_by(records.c.created_at, records.c.id)
        query = query.where(place < border)
        return query.order_by(records.c.created_at.desc(), records.c.id.desc())


def _cursor_at(direction: Literal["older", "newer"], row: Any) -> str:  # noqa: ANN401 - a mapping
    return _Cursor(direction, row["created_at"], row["id"]).encode()


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
