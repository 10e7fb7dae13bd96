"""Servers of one PostgreSQL share large texts without a folder in common."""

import asyncio

import pytest

from cog_adapt.server.records.blob_table import move_texts
from cog_adapt.server.records.database import open_database
from tests.cog_adapt.server.records.home import Home, make_record

LARGE = '"' + "ö" * 100 + '"'


@pytest.fixture
def elsewhere(postgresql_home, tmp_path):
    """A server of the same database, with a folder of its own."""
    return Home(postgresql_home.url, tmp_path / "elsewhere")


def files_of(home):
    return [path.read_text() for path in (home.folder / "blobs").iterdir()]


def test_another_server_reads_a_large_text_and_removes_it(postgresql_home, elsewhere):
    record = make_record(1, input=LARGE, output=LARGE)

    async def story():
        async with (
            postgresql_home.opened(blob_bytes=50) as here,
            elsewhere.opened(blob_bytes=50) as there,
        ):
            await here.save_durably(record)
            assert (await there.get("r1", "predict")).output == LARGE
            assert files_of(postgresql_home) == files_of(elsewhere) == []
            await there.forget("predict", "", "r1")
            assert postgresql_home.texts() == []
            await here.save_durably(record)
            assert (await there.get("r1", "predict")).output == LARGE

    asyncio.run(story())


def test_a_text_that_an_earlier_release_left_in_a_file_is_read(postgresql_home):
    async def story():
        async with postgresql_home.opened(blob_bytes=50) as records:
            await records.save_durably(make_record(1, output=LARGE))
            with postgresql_home.connected() as connection:
                (digest,) = connection.exec_driver_sql("DELETE FROM blobs RETURNING digest").one()
            assert LARGE not in (await records.get("r1", "predict")).output
            (postgresql_home.folder / "blobs" / digest).write_text(LARGE)
            assert (await records.get("r1", "predict")).output == LARGE
            await records.forget("predict", "", "r1")
            assert files_of(postgresql_home) == []

    asyncio.run(story())


def test_while_an_earlier_release_serves_its_files_are_written_too(postgresql_home):
    async def story():
        async with postgresql_home.opened(blob_bytes=50) as records:
            await records.save_durably(make_record(1, output=LARGE))
            assert files_of(postgresql_home) == []
            with postgresql_home.connected() as connection:
                connection.exec_driver_sql(
                    "INSERT INTO servers (id, host, pid, started, lease_until) "
                    "VALUES ('old', 'h', 1, '', now() + interval '1 minute')"
                )
            await records.register()
            await records.save_durably(make_record(2, output=LARGE))
            assert files_of(postgresql_home) == [LARGE]

    asyncio.run(story())


def test_texts_of_a_folder_get_into_the_table_once(postgresql_home, tmp_path):
    """Those that rows name; what is damaged, or named by none, stays where it is."""

    async def story():
        async with postgresql_home.opened(blob_bytes=50) as records:
            await records.save_durably(make_record(1, output=LARGE))
            await records.save_durably(make_record(2, output=LARGE + " "))

    asyncio.run(story())
    engine = open_database(postgresql_home.url, postgresql_home.folder)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with postgresql_home.connected() as connection:
        rows = connection.exec_driver_sql("DELETE FROM blobs RETURNING digest, content").all()
    for digest, content in rows:
        (folder / digest).write_bytes(content)
    damaged, whole = sorted(digest for digest, _ in rows)
    (folder / damaged).write_text("cut")
    (folder / ("0" * 64)).write_text("nobody's")
    assert [move_texts(engine, folder) for _ in range(2)] == [1, 0]
    assert sorted(path.name for path in folder.iterdir()) == ["0" * 64, damaged]
    with postgresql_home.connected() as connection:
        assert connection.exec_driver_sql("SELECT digest FROM blobs").scalars().all() == [whole]
    assert move_texts(engine, tmp_path / "missing") == 0
    engine.dispose()
