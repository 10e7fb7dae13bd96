"""RATE_LIMIT holds over all servers of one PostgreSQL."""

import pytest

from tests.cog_adapt.sharing_servers import ADA, BOB, ask, shared_database
from tests.cog_adapt.waiting import wait_until

RATE = 20


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with shared_database(tmp_path_factory.mktemp("shared")) as shared:
        yield shared


@pytest.fixture(scope="module")
def servers(shared):
    with shared.servers(2, RATE_LIMIT=f"{RATE}/hour") as servers:
        yield servers


def call(server, headers=ADA):
    return ask(server, "POST", "/predictions", {"input": {"text": "r"}}, **headers)[0]


def counted(shared, owner):
    [(calls,)] = shared.sql(
        "SELECT coalesce(sum(calls), 0) FROM rate_counts WHERE caller = %(owner)s", owner=owner
    )
    return calls


def test_a_callers_rate_is_that_of_all_servers_together(servers, shared):
    one, other = servers
    assert [call(one) for _ in range(RATE - 2)] == [200] * (RATE - 2)
    wait_until(lambda: counted(shared, "ada") == RATE - 2)
    wait_until(lambda: knows(other, shared))
    assert [call(other) for _ in range(4)] == [200, 200, 429, 429]
    assert call(other, BOB) == 200
    wait_until(lambda: call(one) == 429)


def knows(server, shared):
    """Whether two exchanges have begun since, of which one must have read all."""
    tick = "SELECT count(*) FROM rate_counts WHERE caller = 'eve'"
    before = shared.sql(tick)[0][0]
    ask(server, "POST", "/predictions", {"input": {}}, Authorization="Bearer eve-key")
    wait_until(lambda: shared.sql(tick)[0][0] > before)
    return True


def test_a_request_that_is_passed_on_counts_once(servers, shared):
    one, other = servers
    body = {"id": "long", "input": {"text": "long", "seconds": 60}}
    assert ask(one, "POST", "/predictions", body, **BOB, Prefer="respond-async")[0] == 202
    for _ in range(5):
        assert ask(other, "PUT", "/predictions/long", {"input": body["input"]}, **BOB)[0] == 202
    assert ask(other, "POST", "/predictions/long/cancel", **BOB)[0] == 200
    wait_until(lambda: counted(shared, "bob") == 1 + 1 + 5)


def test_a_server_that_starts_knows_what_the_others_have_admitted(servers, shared):
    with shared.servers(1, RATE_LIMIT=f"{RATE}/hour") as [late]:
        assert call(late) == 429
        assert call(late, BOB) == 200


def test_who_writes_the_mark_himself_is_counted_all_the_same(servers):
    headers = ADA | {"Cog-Adapt-Passed-On": "1"}
    assert call(servers[0], headers) == 429
