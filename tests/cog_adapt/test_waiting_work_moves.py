"""What waits at a busy server runs at an idle one, and is followed and canceled at both."""

import os
import signal
from functools import partial

import httpx2
import pytest

from tests.cog_adapt.contract.servers import events
from tests.cog_adapt.sharing_servers import ADA, ASYNC, ask, shared_database
from tests.cog_adapt.waiting import assert_stays, wait_for, wait_until


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with shared_database(tmp_path_factory.mktemp("shared")) as shared:
        yield shared


@pytest.fixture(scope="module")
def servers(shared):
    """Two servers that run one prediction each at a time."""
    with shared.servers(2, COG_MAX_CONCURRENCY="1") as servers:
        yield servers


def start(server, name, seconds=60.0, **headers):
    body = {"id": name, "input": {"text": name, "seconds": seconds}}
    return ask(server, "POST", "/predictions", body, **(ASYNC | headers))


def state(server, name):
    status, body = ask(server, "GET", f"/predictions/{name}")
    assert status == 200, body
    return body


def cancel(server, name):
    return ask(server, "POST", f"/predictions/{name}/cancel")[0]


def has_ended(server, name):
    return state(server, name)["status"] not in ("starting", "processing")


@pytest.fixture
def fill(servers, shared):
    """Fill a server's slot until the end of the test."""
    filled = []

    def fill(server, name):
        start(server, name)
        filled.append((server, name))
        wait_for(lambda: shared.runs(name) or None)

    yield fill
    for server, name in filled:
        cancel(server, name)
        wait_until(partial(has_ended, server, name))


def owner_of(shared, name):
    [(server,)] = shared.sql("SELECT server FROM records WHERE id = %(name)s", name=name)
    return server


def test_an_idle_server_takes_what_waits_at_a_busy_one(servers, shared, fill):
    busy, _ = servers
    fill(busy, "block1")
    names = [f"moved{number}" for number in range(5)]
    for name in names:
        assert start(busy, name, 0.05)[0] == 202
    wait_until(lambda: all(state(busy, name)["status"] == "succeeded" for name in names))
    assert [shared.runs(name) for name in names] == [1] * len(names)
    assert len({owner_of(shared, name) for name in names}) == 1
    assert owner_of(shared, names[0]) != owner_of(shared, "block1")
    begun = [state(busy, name)["started_at"] for name in names]
    assert begun == sorted(begun)  # the oldest first


def test_what_waits_is_followed_through_its_move_and_canceled_at_either(servers, shared, fill):
    busy, other = servers
    fill(busy, "block2")
    fill(other, "block3")
    start(busy, "followed")
    with busy.client.stream("GET", f"{busy.url}/predictions/followed/events", headers=ADA) as found:
        reading = events(found)
        first = next(reading)
        assert (first.event, first.data) == ("queued", {"position": 1})
        cancel(other, "block3")
        second = next(reading)
        while second.event == "queued":
            second = next(reading)
        assert (second.event, int(second.id or 0) > int(first.id or 0)) == ("start", True)
        assert cancel(busy, "followed") == 200
        *_, last = reading
        assert (last.event, last.data["status"]) == ("completed", "canceled")
    assert owner_of(shared, "followed") != owner_of(shared, "block2")
    for server in servers:
        assert state(server, "followed")["status"] == "canceled"
        path = f"{server.url}/predictions/followed/events"
        back = ADA | {"Last-Event-ID": first.id}
        with server.client.stream("GET", path, headers=back) as found:
            assert next(events(found)).event in ("start", "log")


def test_a_stream_by_put_goes_on_through_the_move(servers, shared, fill):
    busy, other = servers
    fill(busy, "block4")
    fill(other, "block5")
    start(busy, "put", 0.1)
    body = {"input": {"text": "put", "seconds": 0.1}}
    with busy.open_stream("/predictions/put", body, method="PUT", **ADA) as found:
        reading = events(found)
        assert next(reading).event == "queued"
        cancel(other, "block5")
        left = [each for each in reading if each.event != "queued"]
    assert [each.event for each in left][0] == "start"
    assert (left[-1].event, left[-1].data["status"]) == ("completed", "succeeded")
    assert {each.id for each in left} == {None}


def test_a_stream_that_a_client_has_started_stays(servers, shared, fill):
    busy, _ = servers
    fill(busy, "block-stays")
    body = {"id": "stays", "input": {"text": "stays"}}
    with busy.open_stream("/predictions", body, **ADA) as found:
        assert next(events(found)).event == "queued"
        assert_stays(lambda: shared.runs("stays") == 0, 3)


@pytest.mark.parametrize(
    ("path", "status"), [("/predictions", 200), ("/v1/predictions", 201)], ids=["cog", "replicate"]
)
def test_a_client_that_waits_for_a_time_gets_the_end_at_the_other_server(
    servers, shared, fill, path, status
):
    busy, _ = servers
    name = f"waited-{status}"
    fill(busy, f"block-{name}")
    body = {"input": {"text": name, "seconds": 0.3}}
    answered, run = ask(busy, "POST", path, body, Prefer="wait=50")
    assert (answered, run["status"], run["output"]) == (status, "succeeded", [name, "!"])
    assert owner_of(shared, run["id"]) != owner_of(shared, f"block-{name}")
    assert (shared.runs(name), state(busy, run["id"])["status"]) == (1, "succeeded")


def test_a_client_whose_time_is_over_is_told_what_has_become_of_its_run(servers, shared, fill):
    busy, other = servers
    fill(busy, "block-over")
    body = {"id": "over", "input": {"text": "over", "seconds": 60}}
    answered, run = ask(busy, "POST", "/predictions", body, Prefer="wait=8")
    assert (answered, run["status"]) == (202, "processing")
    assert owner_of(shared, "over") != owner_of(shared, "block-over")
    assert cancel(busy, "over") == 200
    wait_until(partial(has_ended, other, "over"))


def test_a_server_without_a_free_slot_takes_nothing(servers, shared, fill):
    busy, other = servers
    fill(busy, "block6")
    fill(other, "block7")
    start(busy, "waits")
    mine = owner_of(shared, "block6")
    assert_stays(lambda: owner_of(shared, "waits") == mine, 3)
    assert state(busy, "waits")["queue_position"] == 1
    assert cancel(other, "waits") == 200
    assert state(other, "waits")["status"] == "canceled"


def test_many_that_wait_run_once_each_however_they_move(servers, shared):
    busy, other = servers
    names = [f"many{number}" for number in range(40)]
    for number, name in enumerate(names):
        start((busy, other)[number % 10 == 0], name, 0.05)
    wait_until(lambda: all(state(other, name)["status"] == "succeeded" for name in names), 60)
    assert [shared.runs(name) for name in names] == [1] * len(names)
    assert len({owner_of(shared, name) for name in names}) == 2


def test_a_killed_servers_run_is_followed_on_where_it_runs_again(servers, shared):
    path = f"{servers[0].url}/predictions/heir/events"
    with shared.servers(1) as [doomed]:
        body = {"id": "heir", "retries": 1, "input": {"text": "heir", "seconds": 3}}
        assert ask(doomed, "POST", "/predictions", body, **ASYNC)[0] == 202
        wait_for(lambda: shared.runs("heir") or None)
        with servers[0].client.stream("GET", path, headers=ADA) as found:
            reading = events(found)
            seen = next(each.id for each in reading if each.event == "output")
            os.killpg(doomed.process.pid, signal.SIGKILL)
            with pytest.raises(httpx2.TransportError):  # cut, so that the client comes back
                list(reading)
    answers = []

    def come_back():
        with servers[0].client.stream("GET", path, headers=ADA | {"Last-Event-ID": seen}) as found:
            answers.append(found.status_code)
            return list(events(found)) if found.status_code == 200 else None

    again = wait_for(come_back, 60)
    assert set(answers) <= {200, 503}
    assert [each.event for each in again if each.event in ("start", "completed")] == [
        "start",
        "completed",
    ]
    assert again[-1].data["status"] == "succeeded"
    assert all(int(each.id or 0) > int(seen or 0) for each in again)
    assert shared.runs("heir") == 2
