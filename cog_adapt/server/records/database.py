"""Opens the database of a URL, with its tables up to date."""

import sqlite3
import time
from pathlib import Path
from typing import Any, Final

import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.records.server_tables import schema_floor

_DRIVERS: Final = {"sqlite": "sqlite+pysqlite", "postgresql": "postgresql+psycopg"}
_BUSY_SECONDS: Final = 5
_TRIES_EVERY: Final = 0.02  # seconds
_MIGRATION_LOCK: Final = 0x636F67  # any number, the same for every server of this project
_WRITES: Final = "writes"
log = structlog.get_logger()


def open_database(url: str | None, data_dir: Path) -> Engine:
    """Connect and migrate.

    Args:
        url: an SQLite or PostgreSQL URL; by default SQLite's `records.db` in data_dir.
        data_dir: an existing folder.

    Raises:
        ConfigError: the URL, the server or the tables cannot be used.
    """
    address = _read_url(url, data_dir)
    engine = _create_engine(address)
    try:
        with for_writing(engine).begin() as connection:
            _check_encoding(connection)
            _migrate(connection)
    except ConfigError:
        engine.dispose()
        raise
    except (SQLAlchemyError, CommandError) as error:
        engine.dispose()
        cause = str(getattr(error, "orig", error)).strip()
        raise ConfigError(
            f"DATABASE_URL {address.render_as_string(hide_password=True)!r} cannot be used: "
            f"{cause}; start that database, correct the URL, or unset it for SQLite in DATA_DIR"
        ) from error
    return engine


def for_writing(engine: Engine) -> Engine:
    """Return the engine for writing: SQLite's transactions take their lock at the start."""
    return engine.execution_options(**{_WRITES: True})


def _read_url(url: str | None, data_dir: Path) -> URL:
    if url is None:
        return URL.create(_DRIVERS["sqlite"], database=str(data_dir / "records.db"))
    try:
        address = make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError is raised for a wrong port
        raise ConfigError(
            "DATABASE_URL is no SQLAlchemy URL; write it as postgresql://user:password@host/name"
        ) from error
    backend = address.get_backend_name()
    if backend not in _DRIVERS:
        raise ConfigError(
            f"DATABASE_URL has the scheme {address.drivername!r}; allowed: {', '.join(_DRIVERS)}"
        )
    if backend == "sqlite" and address.database in (None, "", ":memory:"):
        raise ConfigError("DATABASE_URL is an SQLite without a file; write sqlite:///FILE")
    return address.set(drivername=_DRIVERS[backend])


def _create_engine(address: URL) -> Engine:
    if address.get_backend_name() == "sqlite":
        engine = create_engine(address, connect_args={"timeout": _BUSY_SECONDS})
        event.listen(engine, "connect", _set_up_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
        return engine
    options = {
        "options": "-c timezone=UTC -c statement_timeout=60s -c lock_timeout=10s",
        "connect_timeout": 10,
        "keepalives_idle": 10,
        "application_name": "cog-adapt",
        "client_encoding": "utf8",
    }
    wanted = {name: value for name, value in options.items() if name not in address.query}
    return create_engine(address, connect_args=wanted, pool_pre_ping=True)


def _check_encoding(connection: Connection) -> None:
    """Refuse a PostgreSQL that cannot keep every text (ConfigError)."""
    if connection.dialect.name != "postgresql":
        return
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise ConfigError(
            f"DATABASE_URL names a database whose encoding is {encoding}, which cannot keep all "
            "texts; make one by `createdb --template=template0 --encoding=UTF8 NAME`"
        )


def _set_up_sqlite(connection: Any, _: object) -> None:  # noqa: ANN401 - sqlite3's connection
    # `_begin_sqlite` sends BEGIN; sqlite3's own way would turn reads into writes half-way.
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA secure_delete=ON")  # deleted rows are overwritten
    _write_ahead(connection)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switch to write-ahead logging, in which SQLite does not wait for other transactions.

    On a file system that cannot have a write-ahead log, SQLite keeps its journal mode.
    """
    until = time.monotonic() + _BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            _wait_if_locked(error, until)
        else:
            return


def _wait_if_locked(error: sqlite3.OperationalError, until: float) -> None:
    if "locked" not in str(error) or time.monotonic() >= until:
        raise error
    time.sleep(_TRIES_EVERY)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _migrate(connection: Connection) -> None:
    """Migrate in one exclusive transaction, so that two servers may start together."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL lock_timeout = 0"))
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
    config = Config()
    config.set_main_option(
        "script_location", str(Path(__file__).parent / "migrations").replace("%", "%%")
    )
    config.attributes["connection"] = connection
    if not _is_newer(connection, ScriptDirectory.from_config(config)):
        command.upgrade(config, "head")


def _is_newer(connection: Connection, known: ScriptDirectory) -> bool:
    """Return whether a newer release has made the tables, and this release may serve with it.

    Raises:
        ConfigError: the tables have lost what this release needs.
    """
    schema = MigrationContext.configure(connection).get_current_revision()
    mine = {script.revision for script in known.walk_revisions()}
    if schema is None or schema in mine:
        return False
    oldest = _oldest_of(connection)
    head = known.get_current_head()
    if oldest not in mine:
        raise ConfigError(
            f"the database's tables are of schema {schema!r}, which a newer release has made. It "
            f"goes with releases of schema {oldest or schema!r} and later; this one is of schema "
            f"{head!r}. Start the newer release; to go back, restore the backup from before it."
        )
    log.warning(
        "the database's tables are of a newer release, which serves beside this one: releases from "
        "the oldest schema on go together. Go on with the upgrade, or with the way back",
        schema=schema,
        oldest=oldest,
        this_release=head,
    )
    return True


def _oldest_of(connection: Connection) -> str | None:
    """Return the oldest schema whose release works with the tables; None if they do not say."""
    if not inspect(connection).has_table(schema_floor.name):
        return None
    found: str | None = connection.execute(select(schema_floor.c.oldest)).scalar_one_or_none()
    return found
