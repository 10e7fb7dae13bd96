"""Brings what a server has kept in its folders to the store and the database of several servers."""

from collections.abc import Iterator

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.storage.moving import Moved, StoreMove
from cog_adapt.runner.storage.remote import Remote
from cog_adapt.server.errors import ConfigError, InputError
from cog_adapt.server.postgresql import is_postgresql
from cog_adapt.server.records.blob_table import move_texts
from cog_adapt.server.records.database import open_database
from cog_adapt.server.settings import Settings


def move_to_store(settings: RunnerSettings, server: Settings) -> Iterator[str]:
    """Copy adapters with versions and decisions to ADAPTER_STORE, and texts to PostgreSQL.

    Args:
        settings: name the folder of adapters and the store.
        server: name the folder of texts and the database.

    Yields:
        Lines that say what was done.

    Raises:
        InputError: no store is set, or a server uses the folder.
        StoreError: the store cannot be used; repeat the command.
        ConfigError: the database cannot be used.
    """
    if not settings.adapter_store:
        raise InputError("ADAPTER_STORE is not set. Set it to the URL of a store for all servers.")
    move = StoreMove(settings.weights_dir / "adapters", Remote(settings.adapter_store))
    if move.is_served():
        raise InputError(
            f"a server, or another command, uses the adapters of {settings.weights_dir}. End it "
            "first."
        )
    count = 0
    for moved in move.adapters():
        count += 1
        if moved.name_before is not None:
            yield _renamed(moved)
    yield f"{count} adapters are in {settings.adapter_store}"
    yield f"{move.decisions()} decisions with their receipts were moved"
    if server.database_url is None or not is_postgresql(server.database_url):
        yield "large texts of records stay in DATA_DIR: DATABASE_URL names no PostgreSQL"
        return
    engine = open_database(server.database_url, server.data_dir)
    try:
        texts = move_texts(engine, server.data_dir / "blobs")
    except OSError as error:
        raise ConfigError(f"DATA_DIR {server.data_dir} cannot be read: {error}") from error
    finally:
        engine.dispose()
    yield f"{texts} large texts of records were moved to the database"


def _renamed(moved: Moved) -> str:
    known = moved.known
    owner = f" of {known.owner}" if known.owner else ""
    return f"{moved.name_before}{owner} is {known.name}@v{known.version} in the store: {known.id}"
