"""The front process's interface to the records."""

import asyncio
import logging
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final, get_args

from sqlalchemy import Connection, Engine

from cog_adapt.deletion_clock import deletion_now
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records import adapter_changes, retention
from cog_adapt.server.records import leases as servers
from cog_adapt.server.records.adapters import AdapterIndex
from cog_adapt.server.records.batch import Changes, Key
from cog_adapt.server.records.blob_table import BlobTable
from cog_adapt.server.records.blobs import BlobFolder, Blobs, BlobStore
from cog_adapt.server.records.claims import ClaimRows
from cog_adapt.server.records.database import open_database
from cog_adapt.server.records.forgetting import (
    ForgottenRecords,
    RecordSelection,
    find_forgotten,
    forget,
    is_mentioned,
    overwrite,
    share_files,
)
from cog_adapt.server.records.neighbours import AdapterFolder, Neighbours
from cog_adapt.server.records.peers import PeerServers
from cog_adapt.server.records.queries import RecordQueries
from cog_adapt.server.records.rates import RateCounts
from cog_adapt.server.records.reader import Reader
from cog_adapt.server.records.record import Delivery, Record
from cog_adapt.server.records.rows import find_foreign, to_row, upsert
from cog_adapt.server.records.space import RecordSpace, TextCount
from cog_adapt.server.records.tables import deliveries, records
from cog_adapt.server.records.transactions import Transactions
from cog_adapt.server.records.writer import Writer

BLOB_GRACE_SECONDS: Final = 3600.0  # the row that names a younger blob may not be committed yet
SHORT_GRACE_SECONDS: Final = 60.0  # for a full disk: a commit takes seconds, unless clocks differ


_log = logging.getLogger(__name__)


class Records(RecordQueries):
    """Predictions, trainings and deliveries, in SQLite or PostgreSQL.

    Coroutine methods raise `StorageError` if the database cannot be used.
    """

    def __init__(
        self,
        engine: Engine,
        blobs: Blobs,
        space: RecordSpace | None = None,
        neighbours: Neighbours | None = None,
    ) -> None:
        self._engine = engine
        self._blobs = blobs
        self.space = space or RecordSpace()
        self._transactions = Transactions(engine, self._write)
        super().__init__(str(uuid.uuid4()), Writer(self._transactions), Reader(engine, blobs))
        has_hosts = engine.dialect.name == "postgresql"  # SQLite's servers are on one host
        self.adapters = AdapterIndex(self._writer, self._reader, self.server)
        self.claims = ClaimRows(self._writer, self.server) if has_hosts else None
        self.rates = RateCounts(self.server, self._writer)
        self.peers = PeerServers(self.server, self._writer, self._reader, is_shared=has_hosts)
        self._neighbours = neighbours or Neighbours()

    @classmethod
    def open(
        cls,
        url: str | None,
        data_dir: Path,
        *,
        blob_bytes: int = 65536,
        space: RecordSpace | None = None,
    ) -> "Records":
        """Connect, and bring the tables up to date.

        Args:
            url: URL of the database; by default SQLite in data_dir.
            data_dir: folder for SQLite and for its large texts.
            blob_bytes: longer texts are kept outside of the rows that name them.
            space: the limit of bytes; None: unlimited.

        Raises:
            ConfigError: the folder or the database cannot be used.
        """
        files, neighbours = _open_folder(data_dir), Neighbours()
        engine = open_database(url, data_dir)
        is_shared = engine.dialect.name == "postgresql"
        texts: BlobStore = files
        if is_shared:
            texts = BlobTable(engine, files, lambda: neighbours.serve_earlier)
        return cls(engine, Blobs(texts, blob_bytes), space, neighbours)

    @property
    def error(self) -> str | None:
        """The reason why the last write failed, or None."""
        return self._transactions.error

    def save(self, record: Record, deliveries: Iterable[Delivery] = ()) -> None:
        """Write within about 200 ms, and retry until that succeeds.

        Of several waiting states of a record, only the last is written.
        """
        self._writer.put(record, deliveries)

    def save_at_once(
        self, record: Record, deliveries: Iterable[Delivery] = ()
    ) -> "asyncio.Future[None]":
        """Write immediately, in one transaction; `get` finds the record from now on.

        Returns:
            a future that resolves when the record is committed. It has a StorageError if nothing
            was or will be written, or another server has taken the record over.
        """
        return self._writer.put_durably(record, deliveries)

    async def save_durably(self, record: Record, deliveries: Iterable[Delivery] = ()) -> None:
        """Write immediately, and return when the record is committed.

        Raises:
            StorageError: nothing was or will be written, or another server took the record over.
        """
        await self.save_at_once(record, deliveries)

    async def register(self, url: str | None = None) -> None:
        """Renew this server's lease, now and every two seconds; call it before the first save.

        Args:
            url: where the other servers of the database ask this one; None: they cannot.
        """
        beat = partial(self._beat, url=url)
        await self._writer.call(beat)
        self._writer.start_beating(beat, servers.BEAT_SECONDS)

    async def claim_folder(self, folder: AdapterFolder) -> None:
        """Say that this server keeps adapters in a folder, from now on.

        Raises:
            ConfigError: another living server of this PostgreSQL keeps its adapters elsewhere.
        """
        claim = partial(self._neighbours.claim, server=self.server, folder=folder)
        await self._writer.call(claim)

    async def take_over(self) -> list[Record]:
        """Assign the unfinished records and deliveries of dead servers to this server.

        A dead server on this machine is recognised immediately, another one when its lease of ten
        seconds has run out. Call this at the start and every few seconds.
        """
        rows = await self._writer.call(partial(servers.take_over, server=self.server))
        return await self._reader.restore(rows)

    async def update_delivery(self, delivery: Delivery) -> None:
        """Write the state after an attempt, or add a new delivery."""
        await self._writer.put_durably(None, (delivery,))

    async def forget(
        self, kind: Kind, owner: str, record_id: str | None = None
    ) -> ForgottenRecords:
        """Remove a finished record, or all of an owner, with deliveries and files, at once.

        If one of them has not ended, none is removed.
        """
        chosen = RecordSelection(kind, owner, record_id)
        forgotten = await self._writer.call(partial(forget, chosen=chosen, blobs=self._blobs))
        if forgotten.removed and not await self._reader.run(lambda _: overwrite(self._engine)):
            _log.warning(
                "traces of removed data remain in SQLite's files: they are large, or in use"
            )
        return forgotten

    async def is_mentioned(self, word: str, record: Record) -> bool:
        """Return whether another record of the same owner mentions a word."""
        await self._writer.flush()
        but = (record.kind, record.id)
        return await self._reader.run(
            lambda connection: is_mentioned(
                connection, word, owner=record.owner, but=but, blobs=self._blobs
            )
        )

    async def prune(self, max_age: timedelta, max_count: int) -> int:
        """Delete finished records that are too old, too many of a kind, or too large together.

        Records with a pending webhook stay. Files that no row names are removed an hour later.

        Returns:
            the number of deleted records.
        """
        await self._writer.call(adapter_changes.prune)
        removed = await _delete_old(self._writer, deletion_now() - max_age, max_count)
        return removed + await _make_room(self._writer, self._reader, self.space)

    async def close(self) -> None:
        """Write the waiting changes, and let others take over unfinished records.

        Raises:
            StorageError: a change could not be written, and is lost.
        """
        try:
            await self._writer.close(partial(servers.leave, server=self.server))
        finally:
            self._reader.close()
            self._engine.dispose()

    def _beat(self, connection: Connection, url: str | None) -> None:
        servers.beat(connection, server=self.server, url=url, token=self.peers.token)
        self._neighbours.note(connection, self.server)

    def _write(self, connection: Connection, changes: Changes) -> set[Key]:
        share_files(connection)
        counted = TextCount(self._blobs)
        rows = (to_row(item, self.server, self._blobs) for item in changes.records.values())
        foreign: set[Key] = set()
        if upsert(connection, records, counted.pass_on(rows)) < len(changes.records):
            foreign = find_foreign(connection, changes.records, self.server)
        forgotten = find_forgotten(connection, changes.deliveries.values())
        owed = (
            to_row(item, self.server, self._blobs)
            for item in changes.deliveries.values()
            if item.key_of_record not in foreign and item.id not in forgotten
        )
        upsert(connection, deliveries, counted.pass_on(owed))
        self.space.add(counted.sizes)
        return foreign


def _open_folder(data_dir: Path) -> BlobFolder:
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        return BlobFolder(data_dir / "blobs")
    except OSError as error:
        raise ConfigError(
            f"DATA_DIR {str(data_dir)!r} cannot be used: {error.strerror}; "
            "name a folder that this process may write to"
        ) from error


async def _delete_old(writer: Writer, before: datetime, max_count: int) -> int:
    """Delete finished records that are too old, or too many of a kind; return their number."""
    total = 0
    for kind in get_args(Kind):
        delete = partial(retention.delete_old, kind=kind, before=before, max_count=max_count)
        while count := await writer.call(delete):
            total += count
    return total


async def _make_room(writer: Writer, reader: Reader, space: RecordSpace) -> int:
    space.low.clear()
    space.set(await reader.measure())
    total, left = 0, space.excess
    for owner, excess in [*space.excess_by_owner.items(), (None, 0.0)]:
        wanted = left if owner is None else excess
        count, freed = await _delete_oldest(
            writer=writer, reader=reader, wanted=wanted, owner=owner
        )
        total, left = total + count, left - freed
    await reader.sweep(SHORT_GRACE_SECONDS if total else BLOB_GRACE_SECONDS)
    space.set(await reader.measure())
    return total


async def _delete_oldest(
    writer: Writer, reader: Reader, wanted: float, owner: str | None
) -> tuple[int, float]:
    """Delete the oldest finished records until enough bytes are free; return number and bytes."""
    count, freed = 0, 0.0
    while freed < wanted:
        removed = await writer.call(partial(retention.delete_oldest, owner=owner))
        if not removed.number:
            break
        count += removed.number
        freed += removed.row_bytes + await reader.size_unless_used(removed.blobs)
    return count, freed
