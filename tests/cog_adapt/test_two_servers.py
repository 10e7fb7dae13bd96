"""What two servers of one PostgreSQL and one store of adapters answer at the same moment."""

import hashlib
import http.client
import json
import textwrap
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

import pytest

from bench.postgres import Cluster, find_binaries
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.test_adapter_changes_reach_all import ADA, CODE, KEYS
from tests.cog_adapt.waiting import wait_for

ROUNDS = 20


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    binaries = find_binaries()
    if binaries is None:
        pytest.skip("no PostgreSQL: run .ci/postgres")
    folder, cluster = tmp_path_factory.mktemp("two"), Cluster(binaries)
    (folder / "learner.py").write_text(textwrap.dedent(CODE))
    lines = [f"{who} {hashlib.sha256(key.encode()).hexdigest()}" for key, who in KEYS.items()]
    (folder / "keys").write_text("\n".join(lines))
    env = {"WEIGHTS_DIR": str(folder / "weights"), "API_KEYS_FILE": str(folder / "keys")}
    env |= {"DATABASE_URL": cluster.empty()}
    try:
        with ExitStack() as stack:
            start = partial(serving, "mirror", folder, predict="learner.py:Learner", env=env)
            both = [stack.enter_context(start(until="up")) for _ in range(2)]
            for each in both:
                wait_for(partial(is_ready, each), 120)
            yield both
    finally:
        cluster.remove()


def is_ready(server):
    return server.get("/readyz", headers=ADA).status_code == 200 or None


def ask(server, method, path, body, **headers):
    """Ask over a connection of its own; return status and body."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=120)
    sent = ADA | {"Content-Type": "application/json"} | headers
    connection.request(method, path, json.dumps(body), sent)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


def at_once(*calls):
    """Begin all calls at one moment; return their answers."""
    together = threading.Barrier(len(calls))

    def begin(call):
        together.wait(60)
        return ask(*call[:4], **(call[4] if len(call) > 4 else {}))

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(begin, calls))


@pytest.fixture(scope="module")
def made(servers):
    """An adapter that each server has made."""
    return [
        ask(server, "POST", "/predictions", {"input": {"learn": seed}})[1]["output"]
        for seed, server in enumerate(servers, 1)
    ]


def test_a_version_of_a_name_is_given_once_whichever_server_is_asked(servers, made):
    given = []
    for number in range(ROUNDS):
        changes = {"name": "ab"[number % 2]}
        calls = [
            (server, "PATCH", f"/adapters/{each}", changes)
            for server, each in zip(servers, made, strict=True)
        ]
        for status, body in at_once(*calls):
            assert status == 200, body
            given.append((body["name"], body["version"]))
    assert len(set(given)) == len(given) == 2 * ROUNDS
    assert max(version for _, version in given) == ROUNDS


def test_equal_puts_at_two_servers_are_one_prediction(servers, made):
    body, wait = {"input": {"adapter": made[0]}}, {"Prefer": "respond-async"}
    statuses: Counter[int] = Counter()
    for number in range(ROUNDS):
        path = f"/predictions/same{number}"
        answers = at_once(*[(server, "PUT", path, body, wait) for server in servers])
        assert {answer["id"] for _, answer in answers} == {f"same{number}"}
        statuses += Counter(status for status, _ in answers)
    assert set(statuses) <= {200, 202}, statuses
