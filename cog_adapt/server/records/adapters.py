"""The index of the predictor's adapters: their owners, their names, and their sharing.

The predictor's files are the source: the index is filled from them at each start of a worker, and
follows each change. Servers that share a database share the folder of the adapters.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from cog_adapt.adapter_rule import EVERYBODY, Asker
from cog_adapt.server.records.adapter_pages import (
    AdapterQuery,
    IndexPage,
    digest_of,
    find_adapter,
)
from cog_adapt.server.records.reader import Reader
from cog_adapt.server.records.tables import adapter_labels, adapter_readers, adapters
from cog_adapt.server.records.writer import Writer

Place = tuple[str, str]
"""Owner and id of an adapter."""
_UNDATED = datetime(1970, 1, 1, tzinfo=UTC)
_OF_ADAPTER = (adapters.c.owner == bindparam("its_owner"), adapters.c.id == bindparam("its_id"))
_BESIDE: Final = (adapter_readers, adapter_labels)
_FORGET = (
    delete(adapters).where(*_OF_ADAPTER),
    *(
        delete(table).where(
            table.c.owner == bindparam("its_owner"), table.c.adapter_id == bindparam("its_id")
        )
        for table in _BESIDE
    ),
)


class AdapterIndex:
    """Reads and writes the index. Raises `StorageError` when the database cannot be used."""

    def __init__(self, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def write(self, changes: Mapping[Place, bytes | None]) -> None:
        """Write the metadata of these adapters as JSON; None removes the adapter's row."""
        await self._writer.call(partial(_write, changes=changes))

    async def write_list(self, found: bytes, but: frozenset[Place]) -> None:
        """Write a JSON list of metadata.

        Args:
            found: the list.
            but: adapters whose written metadata is newer.
        """
        await self._writer.call(partial(_write_list, found=found, but=but))

    async def forget_before(self, moment: datetime) -> None:
        """Drop the adapters that have not been written since."""
        await self._writer.call(partial(_forget_before, moment=moment))

    async def page(self, asker: Asker, query: AdapterQuery) -> IndexPage:
        """Return a page of the adapters that this asker may use, newest first."""
        return await self._reader.run(partial(query.read, asker=asker))

    async def find(
        self, asker: Asker, reference: str, owner: str | None, *, to_change: bool = False
    ) -> "bytes | None":
        """Return the metadata of the adapter that an id, a name or NAME@vN means.

        See `find_adapter`.
        """
        look = partial(
            find_adapter, asker=asker, reference=reference, owner=owner, to_change=to_change
        )
        return await self._reader.run(look)

    async def unowned(self, most: int) -> tuple[int, list[str]]:
        """Count the unshared adapters that have no owner; return some of their names or ids."""
        return await self._reader.run(partial(_read_unowned, most=most))

    async def own(self, owner: str, adapter_id: str | None = None) -> list[bytes]:
        """Return the metadata of an owner's own adapters, one or all, including expired ones."""
        return await self._reader.run(partial(_read_own, owner=owner, adapter_id=adapter_id))


def _read_unowned(connection: Connection, most: int) -> tuple[int, list[str]]:
    table = adapters.c
    shared = select(adapter_readers.c.adapter_id).where(
        adapter_readers.c.owner == "", adapter_readers.c.reader == EVERYBODY
    )
    unowned = (table.owner == "", table.id.not_in(shared))
    count = connection.execute(select(func.count()).select_from(adapters).where(*unowned))
    name = func.coalesce(table.name, table.id).label("shown")
    names = select(name).where(*unowned).distinct().order_by(name).limit(most)
    return count.scalar_one(), [*connection.scalars(names)]


def _read_own(connection: Connection, owner: str, adapter_id: str | None) -> list[bytes]:
    found = select(adapters.c.metadata).where(adapters.c.owner == owner)
    if adapter_id is not None:
        found = found.where(adapters.c.id == adapter_id)
    return [text.encode() for text in connection.scalars(found)]


def _write(connection: Connection, changes: Mapping[Place, bytes | None]) -> None:
    kept = [msgspec.json.decode(each) for each in changes.values() if each is not None]
    _replace(connection, list(changes), kept)


def _write_list(connection: Connection, found: bytes, but: frozenset[Place]) -> None:
    decoded = msgspec.json.decode(found)
    kept = [each for each in decoded if (each["owner"], each["id"]) not in but]
    _replace(connection, [(each["owner"], each["id"]) for each in kept], kept)


def _replace(
    connection: Connection, places: Sequence[Place], kept: Iterable[Mapping[str, Any]]
) -> None:
    """Replace all rows of these adapters by the rows of the remaining ones."""
    if not places:
        return
    keys = [{"its_owner": owner, "its_id": name} for owner, name in places]
    for statement in _FORGET:
        connection.execute(statement, keys)
    now = datetime.now(UTC)
    rows = [_to_row(each, now) for each in kept]
    if rows:
        connection.execute(insert(adapters), rows)
    readers = [
        {"reader": reader, "owner": each["owner"], "adapter_id": each["id"]}
        for each in kept
        for reader in dict.fromkeys(each.get("shared") or ())
    ]
    if readers:
        connection.execute(insert(adapter_readers), readers)
    labels = [label for each in kept for label in _to_labels(each)]
    if labels:
        connection.execute(insert(adapter_labels), labels)


def _to_labels(metadata: Mapping[str, Any]) -> list[dict[str, str]]:
    place = {"owner": metadata["owner"], "adapter_id": metadata["id"]}
    labels = {each for each in metadata.get("labels") or () if isinstance(each, str)}
    return [{"label": digest_of(each), **place} for each in labels]


def _to_row(metadata: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    recipe = metadata.get("recipe") or {}
    return {
        "owner": metadata["owner"],
        "id": metadata["id"],
        "name": metadata.get("name"),
        "version": metadata.get("version"),
        "method": recipe.get("method"),
        "created_at": _to_moment(metadata.get("created_at")) or _UNDATED,
        "expires_at": _to_moment(metadata.get("expires_at")),
        "metadata": msgspec.json.encode(metadata).decode(),
        "indexed_at": now,
    }


def _to_moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _forget_before(connection: Connection, moment: datetime) -> None:
    old = adapters.c.indexed_at < moment
    for table in _BESIDE:
        of_old = (adapters.c.owner == table.c.owner) & (adapters.c.id == table.c.adapter_id)
        connection.execute(delete(table).where(adapters.select().where(of_old, old).exists()))
    connection.execute(delete(adapters).where(old))
