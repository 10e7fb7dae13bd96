"""A model process that hangs is noticed, killed with all that it started, and started again."""

import os
import signal

import pytest

from tests.cog_adapt.faults.cluster import (
    SECONDS,
    crashes_of,
    full,
    is_alive,
    record,
    statuses,
    submit,
    until_gone,
)
from tests.cog_adapt.waiting import wait_for

HUNG = "hung: it sent no heartbeat for 2 s (HANG_SECONDS), and was killed"
PATIENT = {"HANG_SECONDS": "2"}


@pytest.fixture(scope="module")
def common(make_cluster):
    cluster = make_cluster()
    return cluster, cluster.start(env=PATIENT)


@pytest.fixture
def lasting(common):
    """A server whose model process may hang, for several tests."""
    cluster, server = common
    return cluster, cluster.renew(server)


def test_a_stopped_process_is_killed_and_its_work_has_failed_with_the_cause(lasting):
    cluster, server = lasting
    crashes = crashes_of(server)
    submit(server, "running", action="gate")
    submit(server, "waiting")
    cluster.until_begun("running")
    [worker] = server.workers()
    os.kill(worker, signal.SIGSTOP)
    assert statuses(server, "running", "waiting") == {"running": "failed", "waiting": "succeeded"}
    assert record(server, "running")["error"] == f"Worker crashed: the model process {HUNG}"
    until_gone(worker)
    health = server.health()
    found = (health["status"], health["crashes"], health["last_crash"])
    assert found == ("READY", crashes + 1, HUNG)
    cluster.assert_run("running", "waiting")


@full
def test_an_idle_process_is_watched_too(lasting):
    _, server = lasting
    crashes = crashes_of(server)
    [worker] = server.workers()
    os.kill(worker, signal.SIGSTOP)
    wait_for(lambda: crashes_of(server) > crashes or None, SECONDS)
    submit(server, "after")
    assert statuses(server, "after") == {"after": "succeeded"}


def test_a_call_into_c_that_never_returns_is_ended_with_the_forks_of_its_process(lasting):
    cluster, server = lasting
    submit(server, "hung", action="fork_and_hang", seconds=600)
    submit(server, "next")
    assert statuses(server, "hung", "next") == {"hung": "failed", "next": "succeeded"}
    assert HUNG in record(server, "hung")["error"]
    until_gone(*map(int, cluster.book("children")))


def test_a_process_that_dies_is_seen_though_its_fork_lives(lasting):
    cluster, server = lasting
    submit(server, "dead", action="fork_and_exit")
    submit(server, "later")
    assert statuses(server, "dead", "later") == {"dead": "failed", "later": "succeeded"}
    assert "exited with code 3" in record(server, "dead")["error"]
    until_gone(*map(int, cluster.book("children")))


@pytest.mark.parametrize("how", ["hang", pytest.param("stop", marks=full)])
def test_nothing_outlives_a_server_that_is_killed_while_its_model_hangs(cluster, how):
    server = cluster.start()
    action = "fork_and_hang" if how == "hang" else "fork"
    submit(server, "hung", action=action, seconds=600)
    wait_for(lambda: cluster.book("children") or None, SECONDS)
    [worker] = server.workers()
    if how == "stop":
        os.kill(worker, signal.SIGSTOP)
    processes = [worker, *map(int, cluster.book("children"))]
    assert all(map(is_alive, processes))
    server.process.kill()
    server.process.wait(SECONDS)
    until_gone(*processes)
