"""Looks adapters up in their index: page by page, newest first, or one by its id or name."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    literal,
    or_,
    select,
    true,
    tuple_,
)

from cog_adapt.server.errors import InputError
from cog_adapt.server.records.cursors import read_cursor, write_cursor
from cog_adapt.server.records.tables import Moment, adapter_labels, adapter_readers, adapters

EVERYBODY = "*"
_VERSIONED = re.compile(r"(.{1,200})@v([0-9]{1,9})", re.DOTALL)


@dataclass(frozen=True)
class Asker:
    """Who asks for adapters.

    Attributes:
        owner: "" where no keys are set.
        sees_all: whether others' are the asker's too.
    """

    owner: str
    sees_all: bool = False


class AdapterPage(NamedTuple):
    """A page, and the cursor of the next one.

    Attributes:
        adapters: the metadata of each, as JSON.
        next_cursor: None at the end.
    """

    adapters: list[bytes]
    next_cursor: str | None


class _Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last adapter of the page before."""

    created_at: datetime
    id: str
    owner: str


class AdapterQuery(msgspec.Struct, frozen=True):
    """Which adapters to read.

    Attributes:
        limit: at most so many.
        cursor: of the page before.
        name: only its versions.
        method: only what was trained so.
        shared: only others', or only the asker's own.
        owner: only the adapters of this owner.
        label: only those that have learnt this label.
    """

    limit: int
    cursor: _Cursor | None = None
    name: str | None = None
    method: str | None = None
    shared: bool | None = None
    owner: str | None = None
    label: str | None = None

    @classmethod
    def of(cls, limit: int, cursor: str | None, **filters: Any) -> "AdapterQuery":  # noqa: ANN401
        """Check the parameters.

        Raises:
            InputError: the cursor was not made here, or a text holds what no text may.
        """
        place = read_cursor(cursor, _Cursor)
        texts = (place and place.id, place and place.owner, *filters.values())
        if any(isinstance(each, str) and "\0" in each for each in texts):
            raise InputError("a text of the query holds a character of code 0; leave it out")
        return cls(limit, place, **filters)

    def read(self, connection: Connection, asker: Asker) -> AdapterPage:
        """Read the page that an asker may see."""
        found = connection.execute(self._select(asker)).all()
        rows = found[: self.limit]
        cursor = None
        if len(found) > self.limit:
            last = rows[-1]
            cursor = write_cursor(_Cursor(last.created_at, last.id, last.owner))
        return AdapterPage([row.metadata.encode() for row in rows], cursor)

    def _select(self, asker: Asker) -> Select[Any]:
        table = adapters.c
        query = select(table.created_at, table.id, table.owner, table.metadata)
        query = query.where(_may_use(asker)).limit(self.limit + 1)
        for column in ("name", "method", "owner"):
            if (wanted := getattr(self, column)) is not None:
                query = query.where(table[column] == wanted)
        if self.shared is not None:
            query = query.where(
                (table.owner != asker.owner) if self.shared else (table.owner == asker.owner)
            )
        if self.label is not None:
            query = query.where(_has_label(self.label))
        if self.cursor is not None:
            border = literal(self.cursor.created_at, Moment), self.cursor.id, self.cursor.owner
            query = query.where(tuple_(table.created_at, table.id, table.owner) < tuple_(*border))
        return query.order_by(table.created_at.desc(), table.id.desc(), table.owner.desc())


def find_adapter(
    connection: Connection, asker: Asker, reference: str, owner: str | None
) -> bytes | None:
    """Return the metadata of the one that is meant: the asker's own first, an id before a name."""
    if "\0" in reference + (owner or ""):  # no text in PostgreSQL may hold it
        return None
    table = adapters.c
    is_own = case((table.owner == asker.owner, 0), else_=1)
    is_id = case((table.id == reference, 0), else_=1)
    query = (
        select(table.metadata)
        .where(_may_use(asker), or_(table.id == reference, _named(reference)))
        .where(true() if owner is None else table.owner == owner)
        .order_by(is_own, is_id, table.owner, table.version.desc())
        .limit(1)
    )
    found = connection.execute(query).scalar()
    return None if found is None else found.encode()


def digest_of(label: str) -> str:
    """Return what the index has in place of a label."""
    return hashlib.sha256(label.encode(errors="surrogatepass")).hexdigest()[:32]


def _has_label(label: str) -> ColumnElement[bool]:
    having = select(adapter_labels.c.owner, adapter_labels.c.adapter_id).where(
        adapter_labels.c.label == digest_of(label)
    )
    return tuple_(adapters.c.owner, adapters.c.id).in_(having)


def _named(reference: str) -> ColumnElement[bool]:
    versioned = _VERSIONED.fullmatch(reference)
    if versioned is None:
        return adapters.c.name == reference
    name, version = versioned.groups()
    return and_(adapters.c.name == name, adapters.c.version == min(int(version), 2**31 - 1))


def _may_use(asker: Asker) -> ColumnElement[bool]:
    """Return whether it is not expired, and the asker's or shared with the asker."""
    table = adapters.c
    is_there = or_(table.expires_at.is_(None), table.expires_at > datetime.now(UTC))
    return is_there if asker.sees_all else and_(is_there, _is_open_to(asker))


def _is_open_to(asker: Asker) -> ColumnElement[bool]:
    # A set, not a look for each row: so a page of few among many takes an index to each.
    shared = select(adapter_readers.c.owner, adapter_readers.c.adapter_id).where(
        adapter_readers.c.reader.in_((asker.owner, EVERYBODY))
    )
    place = tuple_(adapters.c.owner, adapters.c.id)
    return or_(adapters.c.owner == asker.owner, place.in_(shared))
