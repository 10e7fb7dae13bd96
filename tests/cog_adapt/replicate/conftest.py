"""The servers that the clients ask."""

import os
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.servers import Server
from tests.cog_adapt.contract.serving import free_port
from tests.cog_adapt.proxied import PROXY
from tests.cog_adapt.replicate.site import ADA, LEARNER, ROWS, site


@pytest.fixture(scope="package")
def server(tmp_path_factory) -> Iterator[Server]:
    """A server with keys, whose predictor streams words."""
    with site(tmp_path_factory.mktemp("words")) as running:
        yield running


@pytest.fixture(scope="package")
def restarted(tmp_path_factory) -> Iterator[tuple[Server, str]]:
    """A server whose trainings make adapters, and the id of one that it got before it was killed.

    It has keys, and is one server whatever `PROXY` says.
    """
    folder, port = tmp_path_factory.mktemp("restarted"), free_port()
    again = partial(site, folder, LEARNER, "Learner", port=port, is_alone=True, SELF_TEST="off")
    with again() as first:
        version = first.get("/v1/models/a/b", headers=ADA).json()["latest_version"]["id"]
        others = ROWS.replace("aa", "bb")  # the same rows would give the same adapter one more name
        inputs = {"examples": others, "seconds": 1}
        body = {"input": inputs, "retries": 1, "destination": "ada/kept"}
        path = f"/v1/models/a/b/versions/{version}/trainings"
        made = first.post(path, body, headers=ADA).json()
        os.kill(first.process.pid, signal.SIGKILL)
    with again() as second:
        yield second, made["id"]


@pytest.fixture(scope="package")
def learner(request, tmp_path_factory) -> Iterator[Server]:
    """A server with keys, whose trainings make adapters."""
    if PROXY:
        folder = tmp_path_factory.mktemp("learner")
        with site(folder, LEARNER, "Learner", SELF_TEST="off") as running:
            yield running
    else:
        yield request.getfixturevalue("restarted")[0]


@pytest.fixture(scope="package")
def cluster() -> Iterator[Cluster]:
    """A private PostgreSQL."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    started = Cluster(binaries)
    yield started
    started.remove()
