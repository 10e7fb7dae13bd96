"""Looks up adapters in their index: page by page, newest first, or one by its id or name."""

import hashlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    func,
    literal,
    or_,
    select,
    true,
    tuple_,
)

from cog_adapt.adapter_rule import EVERYBODY, Asker, Reference, choose, parse_reference
from cog_adapt.server.errors import InputError
from cog_adapt.server.records.cursors import read_cursor, write_cursor
from cog_adapt.server.records.tables import Moment, adapter_labels, adapter_readers, adapters

_MOST_OWNERS = 8  # owners of candidates: the caller chooses one, or a message names a few


class IndexPage(NamedTuple):
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
    """The selection of adapters to read.

    Attributes:
        limit: the most adapters in one page.
        cursor: the cursor that the page before returned.
        name: select the versions of this name.
        method: select adapters that this method trained.
        shared: True: select other owners' adapters; False: select the asker's own.
        owner: select the adapters of this owner.
        label: select adapters with this label.
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
            InputError: the cursor was not made here, or a text has a forbidden character.
        """
        place = read_cursor(cursor, _Cursor)
        texts = (place and place.id, place and place.owner, *filters.values())
        if any(isinstance(each, str) and "\0" in each for each in texts):
            raise InputError("a text of the query holds a character of code 0; leave it out")
        return cls(limit, place, **filters)

    def read(self, connection: Connection, asker: Asker) -> IndexPage:
        """Read the page that an asker may see."""
        found = connection.execute(self._select(asker)).all()
        rows = found[: self.limit]
        cursor = None
        if len(found) > self.limit:
            last = rows[-1]
            cursor = write_cursor(_Cursor(last.created_at, last.id, last.owner))
        return IndexPage([row.metadata.encode() for row in rows], cursor)

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


class _Known(msgspec.Struct, frozen=True):
    """The properties of an adapter that `adapter_rule` needs, and all the metadata as JSON."""

    id: str
    owner: str
    name: str | None
    version: int | None
    shared: tuple[str, ...]
    expires_at: str | None
    metadata: bytes


def find_adapter(
    connection: Connection,
    asker: Asker,
    reference: str,
    owner: str | None,
    *,
    to_change: bool = False,
) -> bytes | None:
    """Return the metadata of the adapter that a reference means.

    Args:
        connection: to the database.
        asker: the caller.
        reference: an id or name.
        owner: restricts the search to this owner.
        to_change: whether the owner matters even if the content is equal.

    Raises:
        SeveralOwners: the reference fits adapters of several owners.
    """
    if "\0" in reference + (owner or ""):  # no text in PostgreSQL can contain it
        return None
    meant = parse_reference(reference)
    rows = connection.scalars(_candidates(meant, asker, owner))
    candidates = [_known(text) for text in rows]
    found = choose(candidates, meant, asker, to_change=to_change)
    return None if found is None else found.metadata


def _known(metadata: str) -> _Known:
    known = msgspec.json.decode(metadata)
    return _Known(
        id=known["id"],
        owner=known["owner"],
        name=known.get("name"),
        version=known.get("version"),
        shared=tuple(known.get("shared") or ()),
        expires_at=known.get("expires_at"),
        metadata=metadata.encode(),
    )


def _candidates(reference: Reference, asker: Asker, owner: str | None) -> Select[Any]:
    """Select possible matches, own ones first: the latest version of each owner, of few owners."""
    table = adapters.c
    usable = and_(_may_use(asker), true() if owner is None else table.owner == owner)
    is_own = case((table.owner == asker.owner, 0), else_=1)
    version = func.coalesce(table.version, 1)
    named = select(table.owner, func.max(version)).where(usable, _named(reference))
    latest = named.group_by(table.owner).order_by(is_own, table.owner).limit(_MOST_OWNERS)
    is_latest = and_(tuple_(table.owner, version).in_(latest), _named(reference))
    found = select(table.metadata).where(usable, or_(table.id == reference.text, is_latest))
    is_id = case((table.id == reference.text, 0), else_=1)
    return found.order_by(is_id, is_own, table.owner).limit(2 * _MOST_OWNERS)


def digest_of(label: str) -> str:
    """Return the index's digest of a label."""
    return hashlib.sha256(label.encode(errors="surrogatepass")).hexdigest()[:32]


def _has_label(label: str) -> ColumnElement[bool]:
    having = select(adapter_labels.c.owner, adapter_labels.c.adapter_id).where(
        adapter_labels.c.label == digest_of(label)
    )
    return tuple_(adapters.c.owner, adapters.c.id).in_(having)


def _named(reference: Reference) -> ColumnElement[bool]:
    is_named = adapters.c.name == reference.name
    if reference.version is None:
        return is_named
    return and_(is_named, func.coalesce(adapters.c.version, 1) == reference.version)


def _may_use(asker: Asker) -> ColumnElement[bool]:
    """Return the condition that selects valid adapters that the asker may use."""
    table = adapters.c
    is_there = or_(table.expires_at.is_(None), table.expires_at > datetime.now(UTC))
    return is_there if asker.sees_all else and_(is_there, _is_open_to(asker))


def _is_open_to(asker: Asker) -> ColumnElement[bool]:
    # One set, not a check of each row: a page of few among many then uses an index of each.
    shared = select(adapter_readers.c.owner, adapter_readers.c.adapter_id).where(
        adapter_readers.c.reader.in_((asker.owner, EVERYBODY))
    )
    place = tuple_(adapters.c.owner, adapters.c.id)
    return or_(adapters.c.owner == asker.owner, place.in_(shared))
