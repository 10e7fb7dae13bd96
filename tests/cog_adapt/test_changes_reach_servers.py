"""Changes of adapters reach each worker of both servers before they are answered.

Servers of one PostgreSQL share one folder of adapters, or a second one refuses to serve.
"""

import hashlib
import itertools
import os
import re
import signal
import textwrap
import threading
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import httpx2
import psycopg
import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.sharing_servers import at_once
from tests.cog_adapt.test_adapter_changes_reach_all import ADA, BOB, CODE, KEYS, ask
from tests.cog_adapt.waiting import assert_stays, wait_for

ADMIN = {"Authorization": "Bearer eve-key"}
GATES = itertools.count()
ROUNDS = 10 if os.environ.get("FAULTS") == "full" else 4
SLOW_SECONDS = 1.0  # less than an answer waits for the index
LATER = CODE.replace(
    'async def run(self, adapter: str = "", learn: int = 0) -> str:',
    'async def run(self, adapter: str = "", learn: int = 0, after: str = "") -> str:\n'
    "            while after and not Path(after).exists():\n"
    "                await asyncio.sleep(0.05)",
).replace("from cog import", "import asyncio\n    from pathlib import Path\n\n    from cog import")


@pytest.fixture(scope="module", params=["postgresql", "sqlite"])
def servers(request, tmp_path_factory):
    """Two servers of one database and one folder of adapters.

    How servers hear of each other is the database's, so each has its turn. How workers hear of
    their server is not: those of PostgreSQL have two each.
    """
    folder = tmp_path_factory.mktemp("pair")
    (folder / "learner.py").write_text(textwrap.dedent(LATER))
    lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    env, database = {"WEIGHTS_DIR": str(folder / "weights")} | keys_of(folder), None
    with ExitStack() as stack:
        if request.param == "postgresql":
            binaries = find_binaries()
            if binaries is None:
                pytest.skip("no PostgreSQL: run .ci/postgres")
            cluster = Cluster(binaries)
            stack.callback(cluster.remove)
            database = cluster.empty()
            env |= {"DATABASE_URL": database, "MODEL_PROCESSES": "2"}
        both = [stack.enter_context(start(folder, env, until="up")) for _ in range(2)]
        for each in both:
            wait_for(partial(is_ready, each), 120)
        yield [replace(each, database=database) for each in both]


def keys_of(folder):
    return {"API_KEYS_FILE": str(folder / "keys")}


def start(folder, env, until):
    return serving("mirror", folder, predict="learner.py:Learner", env=env, until=until)


def is_ready(server):
    return server.get("/readyz", headers=ADA).status_code == 200 or None


def change(server, adapter_id, **changes):
    answer = server.request("PATCH", f"/adapters/{adapter_id}", changes, headers=ADA)
    assert answer.status_code == 200, answer.text


def predict(server, headers, adapter):
    """Ask each worker, which runs one prediction at a time; return what all say."""
    if server.database is None:
        return ask(server, "predictions", headers, adapter=adapter)
    gate, others = server.folder / f"gate-{next(GATES)}", []
    values = {"adapter": adapter, "after": str(gate)}
    other = threading.Thread(target=lambda: others.append(ask_apart(server, headers, values)))
    other.start()
    try:
        wait_for(lambda: "cog_predictions_running 1.0" in figures(server) or None, 30)
        found = ask(server, "predictions", headers, adapter=adapter)
    finally:
        gate.touch()
        other.join(60)
    assert others == [found]
    return found


def ask_apart(server, headers, values):
    """Ask over a connection of its own."""
    with httpx2.Client(timeout=120, trust_env=False) as client:
        return ask(replace(server, client=client), "predictions", headers, **values)


def held(server):
    """How many adapters a server has in memory and on its device."""
    lines = server.get("/metrics", headers=ADMIN).text.splitlines()
    names = ("cog_model_adapters_memory_entries", "cog_model_adapter_cache_entries")
    return [sum(float(x.split()[-1]) for x in lines if x.startswith(name)) for name in names]


@pytest.fixture
def warm(servers):
    """An adapter of ada's, shared with bob at one server, in the memory of both."""
    here, there = servers
    made = ask(here, "predictions", ADA, learn=1)
    change(here, made, name="support", shared=["bob"])
    for server in servers:
        for headers in (ADA, BOB):
            assert predict(server, headers, "support") == made
    return made


def test_the_adapter_of_an_answer_is_found_at_the_other_server(servers):
    here, there = servers
    if here.database is None:
        pytest.skip("servers of one SQLite wait for each other's writes")
    assert there.get("/adapters", headers=ADA).is_success  # it knows the owner from now on
    with psycopg.connect(here.database) as slow:
        slow.execute("LOCK TABLE adapters IN EXCLUSIVE MODE")
        end = threading.Timer(SLOW_SECONDS, slow.close)
        end.start()
        made = ask(here, "predictions", ADA, learn=9)
        found = there.get(f"/adapters/{made}", headers=ADA)
        end.join()
    assert found.status_code == 200, found.text


def test_a_server_with_a_folder_of_its_own_names_another_and_ends(servers, tmp_path):
    here, _ = servers
    if here.database is None:
        pytest.skip("servers of one SQLite may have folders of their own")
    env = {"WEIGHTS_DIR": str(tmp_path), "DATABASE_URL": here.database} | keys_of(here.folder)
    with start(here.folder, env, until=None) as stranger:
        assert stranger.process.wait(120) == 1
        said = stranger.log.read_text()
    assert f"keeps its adapters in {here.folder}/weights/adapters" in said
    assert any(f"process {each.process.pid}" in said for each in servers)
    assert "Set ADAPTER_STORE to one store for all servers" in said
    assert [each.process.poll() for each in servers] == [None, None]


def test_what_is_shared_renamed_or_removed_at_one_server_is_so_at_the_other(servers, warm):
    here, there = servers
    assert all(held(there))
    change(here, warm, name="other")
    assert predict(there, ADA, "support") is None
    assert predict(there, ADA, "other") == warm
    change(there, warm, shared=[])
    for reference in (warm, "other"):
        assert predict(here, BOB, reference) is None
    assert here.request("DELETE", "/adapters/other", headers=ADA).status_code == 200
    assert there.get(f"/adapters/{warm}", headers=ADA).status_code == 404
    for reference in (warm, "other"):
        assert predict(there, ADA, reference) is None
    assert held(there) == [0, 0]


def test_what_goes_with_its_owner_is_gone_at_the_other_server(servers, warm):
    here, there = servers
    made = ask(here, "predictions", BOB, learn=2)
    assert predict(there, BOB, made) == made
    assert there.request("DELETE", "/owners/bob/data", headers=BOB).status_code == 200
    assert predict(here, BOB, made) is None


def test_a_version_of_a_name_is_given_once_whichever_server_is_asked(servers):
    made = [ask(each, "predictions", ADA, learn=seed) for seed, each in enumerate(servers, 3)]
    given = []
    for number in range(ROUNDS):
        calls = [
            (server, "PATCH", f"/adapters/{each}", {"name": "ab"[number % 2]})
            for server, each in zip(servers, made, strict=True)
        ]
        for status, body in at_once(calls):
            assert status == 200, body
            given.append((body["name"], body["version"]))
    assert len(set(given)) == len(given) == 2 * ROUNDS
    assert max(version for _, version in given) == ROUNDS


@pytest.mark.timeout(120)
def test_a_stopped_server_is_waited_for_until_its_lease_ends_and_serves_no_adapter(servers, warm):
    here, there = servers
    gate = there.folder / "gate"
    gate.unlink(missing_ok=True)
    answers = []
    values = {"adapter": warm, "after": str(gate)}
    late = threading.Thread(
        target=lambda: answers.append(there.post("/predictions", {"input": values}, headers=ADA))
    )
    late.start()
    wait_for(lambda: "cog_predictions_running 1.0" in figures(there) or None, 30)
    os.kill(there.process.pid, signal.SIGSTOP)
    try:
        assert here.request("DELETE", f"/adapters/{warm}", headers=ADA).status_code == 200
        gate.touch()  # the worker, which runs on, looks the adapter up
        assert_stays(late.is_alive, 1)
    finally:
        os.kill(there.process.pid, signal.SIGCONT)
    late.join(60)
    body = answers[0].json()
    assert body["status"] == "failed"
    assert re.search("kept adapters are not served now|is not known here", body["error"])
    assert wait_for(lambda: predict_status(there, warm), 30) == "is not known here"


def figures(server):
    return server.get("/metrics", headers=ADMIN).text


def predict_status(server, adapter):
    """What a server says of an adapter that is gone, once it serves adapters again."""
    body = server.post("/predictions", {"input": {"adapter": adapter}}, headers=ADA).json()
    assert body["status"] == "failed", body
    return "is not known here" if "is not known here" in body["error"] else None
