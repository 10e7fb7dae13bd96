"""Reads of what is committed."""

import asyncio
import threading

import pytest

from cog_adapt.server.errors import StorageError
from cog_adapt.server.records.blobs import BlobFolder, Blobs
from cog_adapt.server.records.database import for_writing, open_database
from cog_adapt.server.records.reader import THREADS, Reader
from cog_adapt.server.records.rows import to_row, upsert
from cog_adapt.server.records.tables import deliveries, records
from tests.cog_adapt.server.records.home import make_record


@pytest.fixture
def blobs(tmp_path):
    return Blobs(BlobFolder(tmp_path / "blobs"), 10)


@pytest.fixture
def engine(home):
    home.folder.mkdir()
    engine = open_database(home.url, home.folder)
    yield engine
    engine.dispose()


@pytest.fixture
def reader(engine, blobs):
    reader = Reader(engine, blobs)
    yield reader
    reader.close()


@pytest.fixture
def save(engine, blobs):
    def save(*items):
        table = records if hasattr(items[0], "status") else deliveries
        with for_writing(engine).begin() as connection:
            upsert(connection, table, [to_row(item, "one", blobs) for item in items])

    return save


def test_an_id_that_no_database_can_hold_is_not_there(reader):
    assert asyncio.run(reader.find_record("a\0b", "predict")) is None


def test_rows_are_restored_with_their_large_texts(reader, save, engine):
    save(make_record(1, payload="y" * 20))
    with engine.connect() as connection:
        rows = [dict(row) for row in connection.execute(records.select()).mappings()]
    (record,) = asyncio.run(reader.restore(rows))
    assert record.payload == "y" * 20


@pytest.mark.parametrize("fault", [OSError("gone"), "no sql"])
def test_what_cannot_be_read_is_a_storage_error_with_its_cause(reader, fault):
    def fail(connection):
        if isinstance(fault, str):
            connection.exec_driver_sql(fault)
        raise fault

    with pytest.raises(StorageError, match="cannot be read") as caught:
        asyncio.run(reader.run(fail))
    assert caught.value.__cause__ is not None


def test_another_error_passes_through(reader):
    with pytest.raises(ZeroDivisionError):
        asyncio.run(reader.run(lambda connection: 1 // 0))


def test_reads_go_on_while_one_is_slow_and_in_threads_of_their_own(reader):
    slow = threading.Event()

    async def story():
        waiting = asyncio.create_task(reader.run(lambda _: slow.wait(10)))
        name = await reader.run(lambda _: threading.current_thread().name)
        slow.set()
        assert await waiting
        return name

    assert THREADS == 2
    assert asyncio.run(story()).startswith("records-reader")


def test_a_closed_reader_ends_its_threads(engine, blobs):
    reader = Reader(engine, blobs)
    reader.close()
    with pytest.raises(RuntimeError):
        asyncio.run(reader.run(lambda _: None))
