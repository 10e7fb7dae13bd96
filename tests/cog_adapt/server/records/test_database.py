"""Opening a database."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.records import Records, database
from cog_adapt.server.records.database import open_database
from cog_adapt.server.records.server_tables import metadata
from tests.cog_adapt.server.records.home import make_delivery, make_record


def test_migrations_make_the_tables_that_the_code_describes(home):
    home.folder.mkdir()
    open_database(home.url, home.folder).dispose()
    with home.connected() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_a_database_of_before_loses_the_columns_that_nothing_read_and_no_record(home):
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).parent / "migrations"))

    async def story():
        async with home.opened() as records:
            await records.save_durably(make_record(1))
            before = await records.get("r1", "predict")
        with home.connected() as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, "0001")
            connection.exec_driver_sql("UPDATE records SET attempts = 2, version = 'v'")
        async with home.opened() as records:
            assert await records.get("r1", "predict") == before
        with home.connected() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []

    asyncio.run(story())


def test_what_was_there_before_owners_is_nobodys_with_its_deliveries(home):
    """And two owners may have its id beside it."""
    config = Config()
    config.set_main_option("script_location", str(Path(database.__file__).parent / "migrations"))

    async def story():
        async with home.opened() as records:
            await records.save_durably(make_record(1, input="x"), [make_delivery(1)])
        with home.connected() as connection:
            config.attributes["connection"] = connection
            command.downgrade(config, "0002")
        async with home.opened() as records:
            for name in ("ann", "bob"):
                await records.save_durably(make_record(1, owner=name))
            assert (await records.get("r1", "predict")).input == "x"
            assert [each.id for each in await records.deliveries("r1", "predict")] == ["d1"]
            assert sorted(await records.owners_of("r1", "predict")) == ["", "ann", "bob"]

    asyncio.run(story())


def test_servers_may_open_an_empty_database_at_once(home):
    home.folder.mkdir()
    program = (
        "import sys; from pathlib import Path;"
        "from cog_adapt.server.records.database import open_database;"
        f"open_database({home.url!r}, Path({str(home.folder)!r})).dispose()"
    )
    servers = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [server.wait(timeout=30) for server in servers] == [0, 0, 0]


def test_sqlite_waits_for_the_first_transaction_of_another_server(sqlite_home):
    sqlite_home.folder.mkdir()
    file = sqlite_home.folder / "records.db"
    other = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, lambda: other.execute("COMMIT"))
    timer.start()
    open_database(None, sqlite_home.folder).dispose()
    timer.join()
    assert other.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    other.close()


@pytest.mark.timeout(20)
def test_where_sqlite_cannot_log_ahead_it_stays_as_it_is(tmp_path):
    file = f"file:{tmp_path}/records.db?vfs=unix-dotfile"  # locks by files, as on old network disks
    engine = open_database(f"sqlite:///{file}&uri=true", tmp_path)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").one() == ("delete",)
    engine.dispose()


def test_sqlite_waits_for_no_transaction_for_ever(sqlite_home):
    sqlite_home.folder.mkdir()
    other = sqlite3.connect(sqlite_home.folder / "records.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConfigError, match="cannot be used: database is locked"):
        open_database(None, sqlite_home.folder)
    other.close()


def test_sqlite_is_opened_for_many_processes(sqlite_home):
    sqlite_home.folder.mkdir()
    engine = open_database(None, sqlite_home.folder)
    with engine.connect() as connection:
        found = [
            connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "busy_timeout")
        ]
    engine.dispose()
    assert found == ["wal", 1, 5000]


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("mysql://user:pass@host/name", "the scheme 'mysql'; allowed: sqlite, postgresql"),
        ("no url", "no SQLAlchemy URL"),
        ("postgresql://me:pass@host:port/name", "no SQLAlchemy URL"),
        ("sqlite://", "without a file"),
        ("sqlite:////nowhere/x.db", r"pysqlite:////nowhere/x\.db' cannot be used: unable"),
        ("postgresql://me:pass@localhost:1/name", r"//me:\*\*\*@localhost:1/name' cannot be used"),
    ],
)
def test_a_database_that_will_not_do_is_named_with_the_cause(tmp_path, url, message):
    with pytest.raises(ConfigError, match=message) as caught:
        Records.open(url, tmp_path)
    assert "pass" not in str(caught.value).replace("user:password@", "")


def test_a_database_that_cannot_keep_every_text_is_refused(cluster, tmp_path):
    empty = cluster.empty()
    place = f"host={cluster.folder} user=postgres dbname=postgres"
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE bytes TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'"
        )
    with pytest.raises(ConfigError, match="encoding is SQL_ASCII.*createdb .*--encoding=UTF8"):
        Records.open(empty.replace("/postgres?", "/bytes?"), tmp_path)


def test_a_folder_that_will_not_do_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="DATA_DIR .*file' cannot be used: .*; name a folder"):
        Records.open(None, tmp_path / "file")


def make_newer(home, oldest):
    """Make the tables those of a release to come, which goes with releases from `oldest` on."""
    home.folder.mkdir()
    open_database(home.url, home.folder).dispose()
    with home.connected() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = 'future'")
        connection.exec_driver_sql(f"UPDATE schema_floor SET oldest = '{oldest}'")


def test_a_newer_database_that_has_lost_what_is_needed_is_refused_with_what_goes_together(home):
    make_newer(home, "later")
    says = (
        "of schema 'future', which a newer release has made. It goes with releases of schema "
        "'later' and later; this one is of schema 'shared_values'. Start the newer release"
    )
    with pytest.raises(ConfigError, match=says):
        open_database(home.url, home.folder)


def test_a_newer_database_that_only_has_more_is_served_beside_the_newer_release(home):
    make_newer(home, "shared_values")
    with home.connected() as connection:
        connection.exec_driver_sql("ALTER TABLE records ADD COLUMN of_the_future text")

    async def story():
        async with home.opened() as records:
            await records.save_durably(make_record(1))
            assert (await records.get("r1", "predict")).id == "r1"
        with home.connected() as connection:
            version = connection.exec_driver_sql("SELECT version_num FROM alembic_version")
            assert version.scalar() == "future"

    asyncio.run(story())


def test_a_database_that_does_not_say_what_goes_with_it_is_refused(home):
    make_newer(home, "shared_values")
    with home.connected() as connection:
        connection.exec_driver_sql("DROP TABLE schema_floor")
    with pytest.raises(ConfigError, match="schema 'future' and later"):
        open_database(home.url, home.folder)
