"""One Ray cluster for all tests of the folder, apart from every network."""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from bench.postgres import Cluster, find_binaries
from bench.ray_serve.environment import interfaces, ray_variables
from tests.cog_adapt.deploy.ray.calling import Caller
from tests.cog_adapt.deploy.ray.figures import Figures
from tests.cog_adapt.deploy.ray.nodes import PORT, Nodes
from tests.cog_adapt.waiting import wait_until

LEARNER = "tests/cog_adapt/deploy/ray/learner.py:Learner"


@pytest.fixture(scope="session")
def folder():
    """A folder with a short path, for what Ray and the servers write."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed: `make ray` installs it beside, and runs these tests")
    if interfaces() != ["lo"]:
        pytest.skip("not in a network namespace with loopback alone: `make ray` makes one")
    made = Path(tempfile.mkdtemp(prefix="ray-"))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture(scope="session")
def database(folder):
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    cluster = Cluster(binaries)
    yield cluster.empty()
    cluster.remove()


@pytest.fixture(scope="session")
def nodes(folder, database):
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("COG_")]:
            patch.delenv(name)
        variables = ray_variables(folder) | {
            "COG_PREDICT_TYPE_STUB": LEARNER,
            "COG_MAX_CONCURRENCY": "8",
            "DATABASE_URL": database,
            "DATA_DIR": str(folder / "data"),
            "WEIGHTS_DIR": str(folder / "weights"),
        }
        for name, value in variables.items():
            patch.setenv(name, value)
        made = Nodes(database)
        try:
            made.serve(min_replicas=2, max_replicas=2, drain_seconds=20)
            yield made
        finally:
            made.close()


@pytest.fixture(scope="session")
def figures(nodes):
    made = Figures()
    yield made
    made.write()


@pytest.fixture
def caller(nodes):
    """A client of two replicas that are ready."""
    wait_until(lambda: len(nodes.replicas()) >= 2, 300)
    made = Caller(f"http://127.0.0.1:{PORT}")
    wait_until(lambda: made.get("/readyz").status_code == 200, 60)
    yield made
    made.close()
