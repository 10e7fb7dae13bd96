"""Of two model processes one breaks: it is named, its work has its end, and the other serves on."""

import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.cog_adapt.faults.cluster import (
    SECONDS,
    Cluster,
    is_alive,
    kill,
    record,
    statuses,
    submit,
    until_gone,
)
from tests.cog_adapt.waiting import wait_for, wait_until

DEVICES = ["5", "6"]
DATA = "data:text/plain;base64,YQ=="


def begin(cluster, predict="placed_predictor.py:Placed", train=None, until="READY", **env):
    """Start a server with a model process for each of two devices."""
    shutil.copy(Path(__file__).parent / "placed_predictor.py", cluster.folder)
    devices = {"MODEL_PROCESSES": "auto", "CUDA_VISIBLE_DEVICES": ",".join(DEVICES)}
    server = cluster.start(predict, train=train, env=devices | env, until=until)
    if until == "READY" and not (cluster.folder / "setup-6").exists():
        until_whole(server)
    return server


def until_whole(server):
    """Wait until both processes serve."""
    wait_until(lambda: "degraded" not in server.get("/readyz").json(), SECONDS)


@pytest.fixture
def start(cluster: Cluster):
    return partial(begin, cluster)


@pytest.fixture(scope="module")
def common(make_cluster):
    cluster = make_cluster()
    temporary = cluster.folder / "temporary"
    temporary.mkdir()
    server = begin(cluster, OMP_NUM_THREADS="", TMPDIR=str(temporary), HANG_SECONDS="2")
    return cluster, server, cluster.book("places"), server.workers()


@pytest.fixture
def lasting(common):
    """A server whose processes may break, for several tests."""
    cluster, server, *_ = common
    until_whole(server)
    return cluster, cluster.renew(server)


def ran(cluster, *names):
    """The processes that ran these, as soon as each has begun."""
    cluster.until_begun(*names)
    rows = dict(line.split() for line in cluster.book("ran"))
    return [int(rows[name]) for name in names]


def hold(server, cluster, *names):
    """Start runs that wait at the gate; return their processes."""
    for name in names:
        submit(server, name, action="gate")
    return ran(cluster, *names)


def test_each_process_has_its_device_and_its_share_of_the_cores_and_half_of_the_work(
    common, lasting
):
    cluster, server = lasting
    cores = len(os.sched_getaffinity(0))
    _, _, lines, workers = common
    rows = [line.split() for line in lines]
    assert sorted(row[1:] for row in rows) == [[each, str(max(1, cores // 2))] for each in DEVICES]
    assert sorted(workers) == sorted(int(row[0]) for row in rows)
    with cluster.clients(1):
        assert sorted(hold(server, cluster, "a", "b")) == sorted(server.workers())
        assert server.health()["status"] == "BUSY"
    assert statuses(server, "a", "b") == {"a": "succeeded", "b": "succeeded"}
    assert {record(server, name)["output"][0] for name in "ab"} == {*DEVICES}


def crashes_of(server):
    """How often each process has crashed, by health and by the figures."""
    by_health = [each["crashes"] for each in server.health()["workers"]]
    lines = [each for each in server.get("/metrics").text.splitlines() if "crashes_total{" in each]
    assert sorted(float(line.split()[-1]) for line in lines) == sorted(by_health)
    return by_health


def test_a_killed_process_fails_its_own_work_alone_and_comes_back(lasting):
    cluster, server = lasting
    before = crashes_of(server)
    with cluster.clients(1):
        for name in ("first", "second"):
            submit(server, name, action="gate", file=DATA)
        lost, other = ran(cluster, "first", "second")
        submit(server, "patient", action="nothing")
        files = {line.split()[0]: Path(line.split()[1]) for line in cluster.book("files")}
        assert all(file.exists() for file in files.values())
        kill(lost)
        # what waits runs where the other had died, or where it comes back: nobody fails it
        assert statuses(server, "first", "patient") == {"first": "failed", "patient": "succeeded"}
        assert "SIGKILL" in record(server, "first")["error"]
        assert is_alive(other)
        assert record(server, "second")["status"] == "processing"
        assert [files["first"].exists(), files["second"].exists()] == [False, True]
        wait_until(lambda: len(server.workers()) == 2, SECONDS)
    assert statuses(server, "second") == {"second": "succeeded"}
    until_whole(server)
    health, after = server.health(), crashes_of(server)
    assert (health["status"], health["crashes"]) == ("READY", sum(after))
    assert sorted(now - then for now, then in zip(after, before, strict=True)) == [0, 1]


def test_a_process_that_hangs_is_ended_and_the_other_is_not(lasting):
    cluster, server = lasting
    with cluster.clients(1):
        hung, other = hold(server, cluster, "hung", "well")
        os.kill(hung, signal.SIGSTOP)
        assert statuses(server, "hung") == {"hung": "failed"}
        assert "hung: it sent no heartbeat" in record(server, "hung")["error"]
        until_gone(hung)
        assert is_alive(other)
        assert record(server, "well")["status"] == "processing"
    assert statuses(server, "well") == {"well": "succeeded"}


def test_a_setup_that_fails_leaves_its_worker_out_by_name_and_fails_nothing(start, cluster):
    (cluster.folder / "setup-6").write_text("raise")
    server = start()
    wait_for(lambda: server.get("/readyz").json().get("degraded"), SECONDS)
    for name in "abc":
        submit(server, name)
    assert statuses(server, *"abc") == dict.fromkeys("abc", "succeeded")
    answer = server.get("/readyz")
    assert (answer.status_code, answer.json()["ready"]) == (200, True)
    wait_until(lambda: "setup failed" in str(server.get("/readyz").json()["degraded"]), SECONDS)
    named = "worker 1 on device 6: setup failed: RuntimeError: no weights"
    assert server.get("/readyz").json()["degraded"] == [named]
    first, second = server.health()["workers"]
    assert (first["state"], second["state"]) == ("ready", "setup failed")
    assert second["fault"] == "setup failed: RuntimeError: no weights"
    figures = server.get("/playground/server.json").json()["workers"]
    assert [each["worker"] for each in figures] == ["0", "1"]
    assert "setup failed" in server.text()
    assert len(cluster.book("places")) == 2  # no request has started the failed one again


def test_trainings_run_in_the_same_processes_if_one_object_predicts_and_trains(start, cluster):
    both = "placed_predictor.py:Both"
    server = start(both, train=both, COG_MAX_CONCURRENCY="2")
    workers = server.workers()
    with cluster.clients(2) as pool:
        submit(server, "prediction", action="gate")
        cluster.until_begun("prediction")
        found = [
            pool.submit(server.request, "POST", "/trainings", {"input": {"name": name}})
            for name in ("first", "second")
        ]
        cluster.until_begun("first")
        assert server.workers() == workers
        cluster.open_gate()
        done = [each.result(SECONDS).json() for each in found]
    assert [each["status"] for each in done] == ["succeeded", "succeeded"]
    assert {int(each["output"].split()[1]) for each in done} <= {*workers}
    assert statuses(server, "prediction") == {"prediction": "succeeded"}


def test_where_no_setup_succeeds_nothing_is_served(start, cluster):
    for device in DEVICES:
        (cluster.folder / f"setup-{device}").write_text("raise")
    server = start(until="SETUP_FAILED")
    assert server.get("/readyz").status_code == 503
    assert server.request("POST", "/predictions", {"input": {"name": "a"}}).status_code == 503
    assert {each["state"] for each in server.health()["workers"]} == {"setup failed"}


def test_a_prediction_that_ends_its_process_is_quarantined_and_the_others_run(lasting):
    cluster, server = lasting
    before = sum(crashes_of(server))
    innocents = [f"innocent{number}" for number in range(6)]
    submit(server, "pill", action="segfault", envelope={"retries": 10})
    for name in innocents:
        submit(server, name)
    assert statuses(server, "pill", *innocents) == {
        "pill": "failed",
        **dict.fromkeys(innocents, "succeeded"),
    }
    assert "It is quarantined" in record(server, "pill")["error"]
    assert sum(crashes_of(server)) == before + 2
    cluster.assert_run("pill", "pill", *innocents)


def test_a_run_of_either_process_is_cancelled(lasting):
    cluster, server = lasting
    with cluster.clients(1):
        hold(server, cluster, "left", "right")
        assert server.request("POST", "/predictions/right/cancel").status_code == 200
        assert statuses(server, "right") == {"right": "canceled"}
        assert record(server, "left")["status"] == "processing"
        assert server.request("POST", "/predictions/left/cancel").status_code == 200
        assert statuses(server, "left") == {"left": "canceled"}


def test_at_sigterm_what_runs_in_either_process_is_done_and_none_stays(start, cluster):
    server = start()
    workers = server.workers()
    with cluster.clients(1):
        hold(server, cluster, "first", "second")
        submit(server, "queued")
        server.process.terminate()
        cluster.open_gate()
        assert server.process.wait(SECONDS) == 0
    assert not any(map(is_alive, workers))
    cluster.assert_run("first", "second", "queued")
    wanted = dict.fromkeys(("first", "second", "queued"), "succeeded")
    assert cluster.kept(*wanted) == wanted
