"""A server is asked to end: nothing accepted is left without an end, and no process stays."""

import contextlib
import os
import signal
import sqlite3
import time

import httpx2
import pytest

from tests.cog_adapt.contract.servers import events
from tests.cog_adapt.faults.cluster import (
    SECONDS,
    assert_told_once,
    full,
    is_alive,
    record,
    statuses,
    submit,
    until_gone,
)
from tests.cog_adapt.waiting import assert_stays, wait_for


def end(server, how=signal.SIGTERM):
    """Ask it to end, and look at what it leaves: its exit code."""
    workers = server.workers()
    if how == "/shutdown":
        assert server.request("POST", how).status_code == 200
    else:
        server.process.send_signal(how)
    code = server.process.wait(SECONDS)
    assert not any(map(is_alive, workers)), "the model process has outlived the server"
    return code


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (signal.SIGTERM, 0),
        pytest.param(signal.SIGINT, -signal.SIGINT, marks=full),
        pytest.param("/shutdown", 0, marks=full),
    ],
)
def test_all_that_was_accepted_is_done_before_the_end(cluster, receiver, how, code):
    server = cluster.start()
    with cluster.clients(2) as pool:
        submit(server, "async", webhook=receiver.url, seconds=0.5)
        body = {"id": "sync", "input": {"name": "sync"}}
        sync = pool.submit(server.request, "POST", "/predictions", body)
        wait_for(lambda: server.get("/predictions/sync").status_code == 200 or None)
        submit(server, "queued", webhook=receiver.url)
        assert end(server, how) == code
        assert sync.result(SECONDS).json()["status"] == "succeeded"
    assert_told_once(receiver, {"async": "succeeded", "queued": "succeeded"})
    cluster.assert_run("async", "sync", "queued")
    wanted = dict.fromkeys(("sync", "async", "queued"), "succeeded")
    assert cluster.kept(*wanted) == wanted


def test_when_the_time_to_drain_is_over_what_runs_has_failed_and_what_waits_is_kept(
    cluster, receiver
):
    server = cluster.start(env={"DRAIN_SECONDS": "1"})
    with cluster.clients(3) as pool:
        submit(server, "running", webhook=receiver.url, action="fork")
        wait_for(lambda: cluster.book("children") or None, SECONDS)
        body = {"id": "sync", "input": {"name": "sync"}}
        sync = pool.submit(server.request, "POST", "/predictions", body)
        wait_for(lambda: server.get("/predictions/sync").status_code == 200 or None)
        submit(server, "queued", webhook=receiver.url)
        began = time.monotonic()
        assert end(server) == 0
        assert time.monotonic() - began < 8, "one limit of a second, not several"
        answer = sync.result(SECONDS).json()
        assert (answer["status"], "shut down" in answer["error"]) == ("failed", True)
    until_gone(*map(int, cluster.book("children")))
    assert_told_once(receiver, {"running": "failed"})
    again = cluster.start()
    assert_told_once(receiver, {"running": "failed", "queued": "succeeded"})
    wanted = {"running": "failed", "sync": "failed", "queued": "succeeded"}
    assert statuses(again, *wanted) == wanted
    assert "shut down" in record(again, "running")["error"]
    cluster.assert_run("running", "queued")


def test_a_second_ctrl_c_ends_at_once_and_loses_nothing(cluster, receiver):
    server = cluster.start()
    submit(server, "running", webhook=receiver.url, action="gate")
    submit(server, "queued", webhook=receiver.url)
    cluster.until_begun("running")
    server.process.send_signal(signal.SIGINT)
    assert_stays(lambda: server.process.poll() is None, 0.5)
    assert end(server, signal.SIGINT) == -signal.SIGINT
    statuses_again = statuses(cluster.start(), "running", "queued")
    assert statuses_again == {"running": "failed", "queued": "succeeded"}
    assert_told_once(receiver, statuses_again)
    cluster.assert_run("running", "queued")


def test_sigterm_counts_for_nothing_where_an_explicit_shutdown_is_awaited(cluster):
    server = cluster.start(flags=("--await-explicit-shutdown", "true"))
    with cluster.clients(1) as pool:
        body = {"id": "stream", "input": {"name": "stream", "action": "gate"}}

        def stream():
            with server.open_stream("/predictions", body) as response:
                return list(events(response))

        told = pool.submit(stream)
        cluster.until_begun("stream")
        server.process.send_signal(signal.SIGTERM)
        assert_stays(lambda: server.health()["status"] == "BUSY", 0.3)
        cluster.open_gate()
        assert told.result(SECONDS)[-1].data["status"] == "succeeded"
    assert end(server, "/shutdown") == 0


def test_during_setup_it_ends_at_once_and_keeps_what_was_left_to_it(cluster, receiver):
    first = cluster.start()
    submit(first, "running", action="gate")
    submit(first, "waiting", webhook=receiver.url)
    cluster.until_begun("running")
    first.process.kill()
    first.process.wait(SECONDS)
    (cluster.folder / "setup").write_text("sleep 30")
    slow = cluster.start(until="STARTING")
    wait_for(lambda: "taken over" in slow.text() or None, SECONDS)
    began = time.monotonic()
    assert end(slow) == 0
    assert time.monotonic() - began < 10
    (cluster.folder / "setup").write_text("")
    assert statuses(cluster.start(), "running", "waiting")["waiting"] == "succeeded"
    cluster.assert_run("running", "waiting")
    with pytest.raises(httpx2.TransportError):
        slow.get("/healthz")


@pytest.mark.parametrize("how", ["stopped", "hang", pytest.param("fork_and_gate", marks=full)])
def test_whatever_the_model_does_it_ends_within_five_seconds_after_the_drain(cluster, how):
    server = cluster.start(env={"DRAIN_SECONDS": "1"})
    with cluster.clients(1):
        submit(server, "running", action="gate" if how == "stopped" else how, seconds=600)
        cluster.until_begun("running")
        if how == "stopped":
            os.kill(server.workers()[0], signal.SIGSTOP)
        began = time.monotonic()
        assert end(server) == 0
        assert time.monotonic() - began < 6
    until_gone(*map(int, cluster.book("children")))
    assert cluster.kept("running") == {"running": "failed"}


def test_a_database_that_hangs_does_not_keep_it(cluster):
    server = cluster.start(env={"DRAIN_SECONDS": "0"})
    submit(server, "done")
    statuses(server, "done")
    with contextlib.closing(sqlite3.connect(cluster.folder / ".data" / "records.db")) as other:
        other.execute("BEGIN EXCLUSIVE")
        answer = server.request("POST", "/predictions", {"input": {"name": "late"}})
        assert answer.json()["status"] == "succeeded"  # its record waits for the database
        began = time.monotonic()
        end(server)
        assert time.monotonic() - began < 5.5
