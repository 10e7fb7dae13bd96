"""A house and a receiver of webhooks for each test, and houses that outlast one."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cog_adapt.contract.receivers import Receiver
from tests.cog_adapt.faults.cluster import Cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A folder with a database, without servers yet."""
    with contextlib.ExitStack() as stack:
        yield Cluster(tmp_path, stack)


@pytest.fixture(scope="module")
def make_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Cluster]]:
    """Makes folders whose servers last for the tests of a module: `Cluster.renew` begins each."""
    with contextlib.ExitStack() as stack:
        yield lambda: Cluster(tmp_path_factory.mktemp("lasting"), stack)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A server on loopback that webhooks reach."""
    with Receiver() as receiver:
        yield receiver
