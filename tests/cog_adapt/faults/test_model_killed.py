"""The model process dies: what ran has failed at once, what waited runs, nothing runs twice."""

import time
from functools import partial

import pytest

from tests.cog_adapt.contract.servers import events
from tests.cog_adapt.faults.cluster import (
    SECONDS,
    assert_told_once,
    crashes_of,
    is_alive,
    kill,
    record,
    statuses,
    submit,
    until_gone,
)
from tests.cog_adapt.waiting import wait_for

KILLED = "was killed by signal 9 (SIGKILL)"


def post(server, name, **more):
    body = {"id": name, "input": {"name": name, "action": "gate"}, **more}
    return server.request("POST", "/predictions", body, timeout=SECONDS).json()


def stream(server, name):
    body = {"id": name, "input": {"name": name, "action": "gate"}}
    with server.open_stream("/predictions", body) as response:
        return list(events(response))


def test_who_waits_for_a_killed_process_is_told_and_the_queue_runs(cluster, receiver):
    server = cluster.start("recording_predictor.py:Several", env={"COG_MAX_CONCURRENCY": "3"})
    [worker] = server.workers()
    with cluster.clients(4) as pool:
        running = pool.submit(post, server, "sync"), pool.submit(stream, server, "stream")
        submit(server, "async", webhook=receiver.url, action="gate")
        cluster.until_begun("sync", "stream", "async")
        waiting = pool.submit(post, server, "sync2"), pool.submit(stream, server, "stream2")
        submit(server, "async2", webhook=receiver.url, action="gate")
        wait_for(lambda: record(server, "async2").get("queue_position") and _waits(server, 3))
        kill(worker)
        answer, told = (future.result(SECONDS) for future in running)
        assert (answer["status"], answer["error"].count(KILLED)) == ("failed", 1)
        assert told[-1].event == "completed"
        assert KILLED in told[-1].data["error"]
        health = server.health()
        assert (health["crashes"], health["last_crash"]) == (1, KILLED)
        cluster.until_begun("sync2", "stream2", "async2")
        cluster.open_gate()
        assert waiting[0].result(SECONDS)["status"] == "succeeded"
        assert waiting[1].result(SECONDS)[-1].data["status"] == "succeeded"
    assert_told_once(receiver, {"async": "failed", "async2": "succeeded"})
    cluster.assert_run("sync", "stream", "async", "sync2", "stream2", "async2")
    names = cluster.book("begun")
    assert sorted(statuses(server, *names).values()) == ["failed"] * 3 + ["succeeded"] * 3


def _waits(server, count):
    lines = server.get("/metrics").text.splitlines()
    depth = [line for line in lines if "queue" in line and not line.startswith("#")]
    return any(float(line.split()[-1]) == count for line in depth) or None


@pytest.fixture(scope="module")
def common(make_cluster):
    cluster = make_cluster()
    return cluster, cluster.start()


@pytest.fixture(scope="module")
def frail(make_cluster):
    cluster = make_cluster()
    return cluster, cluster.start(env={"MAX_CRASHES": "2"})


@pytest.fixture
def lasting(common):
    """A server whose model process may be killed, for several tests."""
    cluster, server = common
    return cluster, cluster.renew(server)


@pytest.fixture
def weak(frail):
    """The same of a server that gives its model process up after two crashes in a row."""
    cluster, server = frail
    return cluster, cluster.renew(server)


def test_every_way_to_die_has_its_name_and_what_has_retries_runs_again(lasting):
    cluster, server = lasting
    crashes = crashes_of(server)
    causes = {"segfault": "was killed by signal 11 (SIGSEGV)", "exit": "exited with code 3"}
    for action in causes:
        submit(server, action, action=action)
    submit(server, "again", action="die_once", envelope={"retries": 1})
    submit(server, "odd", action="shadow")
    names = [*causes, "again", "odd"]
    assert list(statuses(server, *names).values()) == ["failed", "failed", *["succeeded"] * 2]
    for action, cause in causes.items():
        assert cause in record(server, action)["error"]
    assert record(server, "again")["output"] == ["again"]
    health = server.health()
    assert (health["crashes"], health["last_crash"]) == (crashes + 3, "exited with code 4")
    cluster.assert_run(*names, "again")


def test_a_process_that_dies_again_and_again_is_defunct_and_comes_back(weak, receiver):
    cluster, server = weak
    with cluster.clients(1) as pool:
        submit(server, "one", webhook=receiver.url, action="gate")
        submit(server, "two", webhook=receiver.url, action="exit")
        submit(server, "three", webhook=receiver.url)
        cluster.until_begun("one")
        client = pool.submit(post, server, "client")
        wait_for(lambda: _waits(server, 3), SECONDS)
        kill(server.workers()[0])
        assert_told_once(receiver, {"one": "failed", "two": "failed"})
        assert server.health()["status"] == "DEFUNCT"
        assert server.get("/readyz").status_code == 503
        assert server.get("/healthz").status_code == 200
        answer = server.request("POST", "/predictions", {"input": {"name": "four"}})
        assert answer.status_code == 503
        assert "given up" in client.result(SECONDS)["error"]
        assert record(server, "three")["status"] == "starting"
        cluster.assert_run("one", "two")
    assert_told_once(receiver, {"three": "succeeded"})
    assert server.health()["status"] == "READY"
    cluster.assert_run("one", "two", "three")


def test_a_prediction_that_crashes_the_process_is_quarantined_and_others_do_not_suffer(
    weak,
):
    cluster, server = weak
    crashes = crashes_of(server)
    innocents = [f"innocent{number}" for number in range(10)]
    submit(server, "pill", action="segfault", envelope={"retries": 10})
    for name in innocents:
        submit(server, name)
    assert statuses(server, *innocents) == dict.fromkeys(innocents, "succeeded")
    error = record(server, "pill")["error"]
    assert "SIGSEGV), 2 times while this prediction ran. It is quarantined" in error
    assert "prediction quarantined" in server.text()
    assert (server.health()["status"], crashes_of(server)) == ("READY", crashes + 2)
    cluster.assert_run("pill", "pill", *innocents)


def _began(cluster, name, times):
    return cluster.book("begun").count(name) == times or None


def test_a_prediction_whose_process_others_kill_runs_as_often_as_its_retries_say(lasting):
    cluster, server = lasting
    submit(server, "patient", action="gate", envelope={"retries": 3})
    submit(server, "hasty", envelope={"retries": 2})
    for runs in range(1, 4):
        wait_for(partial(_began, cluster, "patient", runs))
        kill(server.workers()[0])
    wait_for(partial(_began, cluster, "patient", 4))
    cluster.open_gate()
    assert statuses(server, "patient", "hasty") == {"patient": "succeeded", "hasty": "succeeded"}


def test_a_cancel_without_effect_ends_the_process_after_the_grace(cluster):
    server = cluster.start(env={"CANCEL_GRACE_SECONDS": "1", "MAX_CRASHES": "1"})
    submit(server, "rude", action="ignore", seconds=600)
    submit(server, "next")
    submit(server, "late", action="ignore", seconds=600, headers={"Cancel-After": "2s"})
    cluster.until_begun("rude")
    assert server.request("POST", "/predictions/rude/cancel").status_code == 200
    assert statuses(server, "rude", "next", "late") == {
        "rude": "canceled",
        "next": "succeeded",
        "late": "canceled",
    }
    health = server.health()
    assert "CANCEL_GRACE_SECONDS" in health["last_crash"]
    wait_for(lambda: server.health()["status"] == "READY" or None, SECONDS)


def test_a_second_setup_that_fails_is_tried_again(lasting):
    cluster, server = lasting
    crashes = crashes_of(server)
    (cluster.folder / "setup").write_text("raise")
    kill(server.workers()[0])
    wait_for(lambda: crashes_of(server) > crashes or None, SECONDS)
    submit(server, "waits")
    wait_for(lambda: cluster.book("setups") or None, SECONDS)
    (cluster.folder / "setup").write_text("")
    assert statuses(server, "waits") == {"waits": "succeeded"}
    assert server.health()["status"] == "READY"


def test_a_model_that_hangs_in_c_does_not_hang_the_server(lasting):
    cluster, server = lasting
    submit(server, "hung", action="hang", seconds=3)
    cluster.until_begun("hung")
    began = time.monotonic()
    assert server.get("/healthz").status_code == 200
    assert server.health()["status"] == "BUSY"
    assert server.get("/predictions/hung").json()["status"] == "processing"
    assert server.request("POST", "/predictions/hung/cancel").status_code == 200
    assert server.request("POST", "/predictions", {"input": {"name": 3}}).status_code == 422
    assert time.monotonic() - began < 2.5, "these waited for the model"
    assert cluster.book("ended") == []
    submit(server, "next")
    assert statuses(server, "hung", "next") == {"hung": "canceled", "next": "succeeded"}


def test_the_processes_of_a_killed_model_go_with_it(lasting):
    cluster, server = lasting
    submit(server, "parent", action="fork")
    wait_for(lambda: cluster.book("children") or None, SECONDS)
    [child] = map(int, cluster.book("children"))
    assert is_alive(child)
    kill(server.workers()[0])
    assert statuses(server, "parent") == {"parent": "failed"}
    until_gone(child)


def test_a_training_process_that_breaks_takes_no_prediction_along_and_is_started_again(cluster):
    server = cluster.start(train="recording_predictor.py:train")
    submit(server, "prediction", action="gate")
    cluster.until_begun("prediction")

    def train(name):
        return server.request("POST", "/trainings", {"input": {"name": name}}).json()

    for word in ("raise", "die", ""):
        (cluster.folder / "import").write_text(word)
        assert train(word or "good")["status"] == ("failed" if word else "succeeded")
    (cluster.folder / "training").write_text("die")
    answer = train("dying")
    assert (answer["status"], "exited with code 5" in answer["error"]) == ("failed", True)
    (cluster.folder / "training").unlink()
    assert train("again")["status"] == "succeeded"
    cluster.open_gate()
    assert statuses(server, "prediction") == {"prediction": "succeeded"}
    cluster.assert_run("prediction", "good", "dying", "again")
