"""The index of the predictor's adapters: their owners, their names, and their sharing.

The predictor's files are the source: the index is filled from them at each start of a worker, and
follows each change. Servers that share a database share the files of the adapters, and each learns
the changes of the others (`adapter_changes`).
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, bindparam, delete, func, insert, select

from cog_adapt.adapter_rule import EVERYBODY, Asker
from cog_adapt.server.records import adapter_changes as sequence
from cog_adapt.server.records.adapter_changes import AdapterChange, ChangesRead
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
_USES: Final = ("hits", "used_at")
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

    def __init__(self, writer: Writer, reader: Reader, server: str) -> None:
        self._writer = writer
        self._reader = reader
        self._server = server

    async def write(self, changes: Mapping[Place, bytes | None]) -> int:
        """Write the metadata of these adapters as JSON; None removes the adapter's row.

        Returns:
            the number of the last change that other servers must learn; 0: there is none.
        """
        write = partial(_write, changes=changes, server=self._server)
        return await self._writer.call(write)

    async def write_list(self, found: bytes, since: datetime, after: int) -> None:
        """Write a JSON list of metadata, but of no adapter whose row is newer than the list.

        Args:
            found: the list.
            since: rows that were written later are newer.
            after: changes with a larger number are newer.
        """
        await self._writer.call(partial(_write_list, found=found, since=since, after=after))

    async def forget_before(self, moment: datetime, after: int) -> None:
        """Drop the adapters that were neither written since, nor changed after a number."""
        await self._writer.call(partial(_forget_before, moment=moment, after=after))

    async def note_forgotten(self, owner: str, key: str) -> int:
        """Tell other servers to forget a cached adaptation, "" for all of an owner's.

        Returns:
            the number of this change.
        """
        write = partial(_note_forgotten, change=AdapterChange(owner, "", key), server=self._server)
        return await self._writer.call(write)

    async def join(self) -> int:
        """Confirm all changes so far: no worker of this server has read a file yet.

        Returns:
            the number of the last change.
        """
        last = await self.read_last()
        await self.confirm(last)
        return last

    async def read_last(self) -> int:
        """Return the number of the last change; 0 without any."""
        return await self._reader.run(sequence.read_last)

    async def changes_after(self, number: int) -> ChangesRead:
        """Read other servers' changes after a number."""
        read = partial(sequence.read_changes, server=self._server, after=number)
        return await self._reader.run(read)

    async def confirm(self, number: int) -> None:
        """Note that all workers of this server know the changes up to a number."""
        await self._writer.call(partial(sequence.confirm, server=self._server, number=number))

    async def servers_behind(self, number: int) -> list[str]:
        """Return the other living servers that have not confirmed a number."""
        look = partial(sequence.read_behind, server=self._server, number=number)
        return await self._reader.run(look)

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


def _write(connection: Connection, changes: Mapping[Place, bytes | None], server: str) -> int:
    sequence.lock(connection)
    kept = {place: msgspec.json.decode(each) for place, each in changes.items() if each is not None}
    news = [place for place in changes if _differs(connection, place, kept.get(place))]
    _replace(connection, list(changes), kept.values())
    return sequence.append(connection, server, (AdapterChange(*place) for place in news))


def _note_forgotten(connection: Connection, change: AdapterChange, server: str) -> int:
    sequence.lock(connection)
    return sequence.append(connection, server, [change])


def _differs(connection: Connection, place: Place, metadata: Mapping[str, Any] | None) -> bool:
    """Return whether other servers must learn of a change; the number of uses is no such change."""
    if metadata is None:
        return True
    row = select(adapters.c.metadata).where(*_OF_ADAPTER)
    before = connection.execute(row, {"its_owner": place[0], "its_id": place[1]}).scalar()
    return before is None or _without_uses(msgspec.json.decode(before)) != _without_uses(metadata)


def _without_uses(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name not in _USES}


def _write_list(connection: Connection, found: bytes, since: datetime, after: int) -> None:
    sequence.lock(connection)
    decoded = {(each["owner"], each["id"]): each for each in msgspec.json.decode(found)}
    newer = sequence.places_after(connection, after)
    ids = [name for _, name in decoded]
    fresh = select(adapters.c.owner, adapters.c.id).where(
        adapters.c.id.in_(ids), adapters.c.indexed_at >= since
    )
    newer |= {(owner, name) for owner, name in connection.execute(fresh)}
    kept = {place: each for place, each in decoded.items() if place not in newer}
    _replace(connection, [*kept], kept.values())


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


def _forget_before(connection: Connection, moment: datetime, after: int) -> None:
    sequence.lock(connection)
    old = select(adapters.c.owner, adapters.c.id).where(adapters.c.indexed_at < moment)
    newer = sequence.places_after(connection, after)
    places = [(owner, name) for owner, name in connection.execute(old)]
    _replace(connection, [place for place in places if place not in newer], [])
