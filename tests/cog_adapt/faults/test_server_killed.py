"""The server is killed: what waited runs at the next one, what ran has an end, nothing twice."""

import contextlib
import signal
import time

import httpx2

from tests.cog_adapt.faults.cluster import (
    IS_FULL,
    SECONDS,
    assert_told_once,
    full,
    is_alive,
    kill,
    record,
    statuses,
    submit,
    until_final,
    until_gone,
)
from tests.cog_adapt.waiting import assert_stays, wait_for

ROUNDS = 12 if IS_FULL else 2


def die(server):
    """SIGKILL to the server; its model process and the server's own are gone afterwards."""
    workers = server.workers()
    assert len(workers) == 1
    kill(server.process.pid)
    server.process.wait(20)
    return workers


def until_served(server):
    """Wait until it takes predictions; it may be busy with what it has found."""
    wait_for(lambda: server.health()["status"] in ("READY", "BUSY") or None, SECONDS)


def test_what_a_killed_server_had_accepted_is_finished_by_the_next(cluster, receiver):
    first = cluster.start()
    submit(first, "running", webhook=receiver.url, action="fork")
    submit(first, "waiting", webhook=receiver.url)
    submit(first, "silent")
    submit(first, "late", headers={"Cancel-After": "1s"}, webhook=receiver.url)
    wait_for(lambda: cluster.book("children") or None, SECONDS)
    before = record(first, "waiting")
    until_gone(*die(first), *map(int, cluster.book("children")))
    assert not receiver.requests
    time.sleep(1.0)  # until "late" is too late
    second = cluster.start()
    wanted = {"running": "failed", "waiting": "succeeded", "late": "canceled"}
    assert_told_once(receiver, wanted)
    assert statuses(second, *wanted, "silent") == wanted | {"silent": "succeeded"}
    assert record(second, "running")["error"] == "The server ended while it ran."
    assert record(second, "waiting")["created_at"] == before["created_at"]
    cluster.assert_run("running", "waiting", "silent")


def test_what_ran_runs_again_as_often_as_was_asked_for(cluster, receiver):
    first = cluster.start()
    submit(first, "stubborn", webhook=receiver.url, action="gate", envelope={"retries": 2})
    cluster.until_begun("stubborn")
    kill(first.workers()[0])  # the first of its two
    wait_for(lambda: len(cluster.book("begun")) == 2 or None, SECONDS)
    until_gone(*die(first))
    second = cluster.start(until="up")
    wait_for(lambda: len(cluster.book("begun")) == 3 or None, SECONDS)
    until_gone(*die(second))
    third = cluster.start()
    assert_told_once(receiver, {"stubborn": "failed"})
    assert statuses(third, "stubborn") == {"stubborn": "failed"}
    cluster.assert_run(*["stubborn"] * 3)


def test_a_living_server_goes_on_with_what_a_killed_one_left(cluster, receiver):
    first, second = cluster.start(), cluster.start()
    submit(first, "running", webhook=receiver.url, action="gate")
    submit(first, "waiting", webhook=receiver.url)
    cluster.until_begun("running")
    for method, path, body in (
        ("POST", "/predictions", {"id": "waiting", "input": {"name": "waiting"}}),
        ("POST", "/predictions", {"id": "running", "input": {"name": "other"}}),
        ("PUT", "/predictions/running", {"input": {"name": "other"}}),
    ):
        answer = second.request(method, path, body, headers={"Prefer": "respond-async"})
        assert answer.status_code == 409, answer.text
    same = {"input": {"name": "running", "action": "gate"}}
    answer = second.request("PUT", "/predictions/running", same)
    assert (answer.status_code, answer.json()["status"]) == (202, "processing")
    die(first)
    assert_told_once(receiver, {"running": "failed", "waiting": "succeeded"})
    assert statuses(second, "running", "waiting") == {"running": "failed", "waiting": "succeeded"}
    cluster.assert_run("running", "waiting")


@full
def test_a_server_that_was_taken_for_dead_does_not_tell_an_end_of_its_own(cluster, receiver):
    first, second = cluster.start(), cluster.start()
    submit(first, "running", webhook=receiver.url, action="gate")
    cluster.until_begun("running")
    time.sleep(0.5)  # one that is stopped while it writes would lock SQLite
    cluster.stack.callback(first.process.send_signal, signal.SIGCONT)
    first.process.send_signal(signal.SIGSTOP)
    assert_told_once(receiver, {"running": "failed"})  # when its lease of ten seconds is over
    cluster.open_gate()
    first.process.send_signal(signal.SIGCONT)
    wait_for(lambda: "end is left to another server" in first.text() or None, SECONDS)
    submit(first, "next", webhook=receiver.url)
    assert_told_once(receiver, {"running": "failed", "next": "succeeded"})
    assert record(second, "running")["status"] == "failed"


def test_a_server_that_cannot_be_set_up_leaves_what_waits_to_one_that_can(cluster):
    first = cluster.start()
    submit(first, "running", action="gate")
    submit(first, "waiting")
    cluster.until_begun("running")
    die(first)
    (cluster.folder / "setup").write_text("raise")
    broken = cluster.start(until=None)
    wait_for(lambda: "setup failed" in broken.text() or None, SECONDS)
    assert_stays(lambda: cluster.book("begun") == ["running"], 0.3)
    (cluster.folder / "setup").write_text("")
    good = cluster.start()
    assert until_final(good, "running", "waiting")["running"]["status"] == "failed"
    assert len(cluster.book("begun")) == len(set(cluster.book("begun")))


def test_kills_at_any_moment_lose_and_double_nothing(cluster, receiver):
    accepted: list[str] = []
    for number in range(ROUNDS):
        server = cluster.start(until="up")
        until_served(server)
        names = [f"n{number}-{each}" for each in range(60)]
        with contextlib.suppress(httpx2.TransportError):
            for name in names:
                submit(server, name, webhook=receiver.url)
                accepted.append(name)
                if len(accepted) == 25 * (number + 1):
                    die(server)
    server = cluster.start()
    ended = statuses(server, *accepted)
    assert_told_once(receiver, ended)
    begun = cluster.book("begun")
    assert len(begun) == len(set(begun)), "something has run twice"
    ran_to_end = set(cluster.book("ended"))
    assert {name for name, status in ended.items() if status == "succeeded"} <= ran_to_end
    assert set(ended.values()) <= {"succeeded", "failed"}
    assert list(ended.values()).count("failed") <= ROUNDS
    assert not any(is_alive(int(pid)) for pid in cluster.book("setups")[:-1])
