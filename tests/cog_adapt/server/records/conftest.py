"""Every test of records runs with both databases."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, event

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.server.records.home import Home


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A private PostgreSQL."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    started = Cluster(binaries)
    yield started
    started.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def home(request, tmp_path) -> Home:
    """An empty database, of each kind in turn."""
    if request.param == "sqlite":
        return Home(None, tmp_path / "data")
    return Home(request.getfixturevalue("cluster").empty(), tmp_path / "data")


@pytest.fixture
def sqlite_home(tmp_path) -> Home:
    """For what only SQLite does."""
    return Home(None, tmp_path / "data")


@pytest.fixture
def short_waits():
    """SQLite waits a tenth of a second for another's transaction."""

    def wait_shortly(connection, _):
        connection.execute("PRAGMA busy_timeout=100")

    event.listen(Engine, "connect", wait_shortly)
    yield
    event.remove(Engine, "connect", wait_shortly)


@pytest.fixture
def postgresql_home(cluster, tmp_path) -> Home:
    """For what only PostgreSQL does."""
    return Home(cluster.empty(), tmp_path / "data")
