"""The servers that the clients ask."""

from collections.abc import Iterator

import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.replicate.site import LEARNER, site


@pytest.fixture(scope="package")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server with keys, whose predictor streams words."""
    with site(tmp_path_factory.mktemp("words")) as running:
        yield running


@pytest.fixture(scope="package")
def learner(tmp_path_factory) -> Iterator[Server]:
    """A server with keys, whose trainings make adapters."""
    folder = tmp_path_factory.mktemp("learner")
    with site(folder, LEARNER, "Learner", SELF_TEST="off") as running:
        yield running


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """A private PostgreSQL."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    started = Cluster(binaries)
    yield started
    started.remove()
