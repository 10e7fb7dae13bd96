"""Servers of one PostgreSQL share one folder of adapters, or a second one refuses to serve."""

import hashlib
import textwrap
from contextlib import ExitStack
from functools import partial

import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.test_adapter_changes_reach_all import ADA, CODE, KEYS
from tests.cog_adapt.waiting import wait_for


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """Starts a server of one database, with the folder of a name for its adapters."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    cluster = Cluster(binaries)
    url = cluster.empty()
    lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
    with ExitStack() as stack:

        def started(name, **env):
            folder = tmp_path_factory.mktemp(name)
            (folder / "learner.py").write_text(textwrap.dedent(CODE))
            (folder / "keys").write_text("\n".join(lines))
            env = {"API_KEYS_FILE": str(folder / "keys"), "DATABASE_URL": url} | env
            opened = serving("mirror", folder, predict="learner.py:Learner", env=env, until=None)
            return stack.enter_context(opened)

        yield started
    cluster.remove()


def is_ready(server):
    answer = server.get("/readyz", headers=ADA)
    return answer.status_code == 200 or None


def test_a_second_server_with_a_folder_of_its_own_names_the_first_and_ends(start, tmp_path):
    shared = str(tmp_path / "shared")
    first = start("first", WEIGHTS_DIR=shared)
    wait_for(partial(asks, first), 120)
    second = start("second", WEIGHTS_DIR="weights")
    assert second.process.wait(120) == 1
    said = second.log.read_text()
    assert f"keeps its adapters in {shared}/adapters" in said
    assert f"process {first.process.pid}" in said
    assert "Set ADAPTER_STORE to one store for all servers" in said
    assert first.process.poll() is None
    third = start("third", WEIGHTS_DIR=shared)
    wait_for(partial(asks, third), 120)
    assert third.process.poll() is None


def asks(server):
    """Whether a server answers that it is ready; it may not listen yet."""
    try:
        return is_ready(server)
    except OSError:
        return None
    except Exception as error:
        if "onnect" in type(error).__name__:
            return None
        raise
