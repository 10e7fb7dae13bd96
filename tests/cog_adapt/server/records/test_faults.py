"""Disk full, locked, killed, restarted: what was promised is there."""

import asyncio
import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from cog_adapt.server.errors import StorageError
from gradient_check.tests.present import present
from tests.cog_adapt.server.records.home import Home, make_record
from tests.cog_adapt.waiting import until


async def flush(records) -> None:
    """Wait until the database takes again what waits to be written."""
    await until(lambda: records.error is None)
    await records.owners_of("any", "predict")


def fill(file: Path) -> None:
    """Take all the room there is."""
    with file.open("wb", buffering=0) as opened, contextlib.suppress(OSError):
        while True:
            opened.write(b"0" * 4096)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_everything_committed_outlives_a_kill(home):
    servers = [home.start_crashing_server(name) for name in "ab"]
    committed = [server.stdout.readline().strip() for server in servers for _ in range(100)]
    for server in servers:
        server.kill()
    for server in servers:
        committed += server.stdout.read().split()
        server.stdout.close()
        server.wait()

    async def story():
        async with home.opened() as records:
            for name in committed:
                assert await records.get(name, "predict"), f"{name} is lost"

    asyncio.run(story())


@pytest.mark.parametrize("what", ["database", "file"])
def test_nothing_is_lost_when_the_disk_is_full(small_disk, what):
    home = Home(None, small_disk / "data")
    limit = 10_000_000 if what == "database" else 1000
    text = '"' + "x" * 20_000

    async def story():
        async with home.opened(blob_bytes=limit) as records:
            filler = small_disk / "filler"
            fill(filler)
            for number in range(20):
                records.save(make_record(number, input=f'{text}{number}"'))
            with pytest.raises(StorageError, match=r"full|space.*make room"):
                await records.save_durably(make_record(99, input=f'{text}99"'))
            assert records.error is not None
            assert "full" in records.error or "space" in records.error
            assert present(await records.get("r7", "predict")).input == f'{text}7"'
            filler.unlink()
            await flush(records)
            assert records.error is None
            assert await records.get("r99", "predict") is None
            await records.save_durably(make_record(100))
        async with home.opened(blob_bytes=limit) as records:
            found = (await records.page("predict")).records
            assert len(found) == 21
            assert present(await records.get("r7", "predict")).input == f'{text}7"'

    asyncio.run(story())


def test_a_locked_database_is_an_error_and_works_again(sqlite_home, short_waits):

    async def story():
        async with sqlite_home.opened() as records:
            with sqlite_home.connected() as connection:
                connection.exec_driver_sql("DELETE FROM servers WHERE id = ''")
                records.save(make_record(1))
                with pytest.raises(StorageError, match="locked"):
                    await records.save_durably(make_record(2))
                assert records.error is not None
            await flush(records)
            await records.save_durably(make_record(3))
            assert records.error is None
            page = await records.page("predict")
            assert [record.id for record in page.records] == ["r3", "r1"]

    asyncio.run(story())


def test_records_go_on_when_postgresql_is_started_again(postgresql_home, cluster):
    async def story():
        async with postgresql_home.opened() as records:
            await records.save_durably(make_record(1))
            await asyncio.to_thread(cluster.stop)
            try:
                records.save(make_record(2))
                with pytest.raises(StorageError):
                    await records.save_durably(make_record(3))
                with pytest.raises(StorageError):
                    await records.get("r1", "predict")
            finally:
                await asyncio.to_thread(cluster.start)
            await flush(records)
            page = await records.page("predict")
            assert [record.id for record in page.records] == ["r2", "r1"]
            assert records.error is None

    asyncio.run(story())


def test_a_restart_of_postgresql_between_two_saves_is_not_noticed(postgresql_home, cluster):
    async def story():
        async with postgresql_home.opened() as records:
            await records.save_durably(make_record(1))
            cluster.stop()
            cluster.start()
            await records.save_durably(make_record(2))
            assert records.error is None

    asyncio.run(story())
