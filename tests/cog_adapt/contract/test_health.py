"""Section 3: /health-check, setup and its failures, and a model process that dies."""

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.contract.flavours import STRICT_OR_NOT
from tests.cog_adapt.waiting import wait_for

MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(\d{3})?\+00:00")


def test_health_of_a_ready_server(actions):
    actions.until_idle()
    response = actions.get("/health-check")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    health = response.json()
    assert health.keys() == {"status", "setup", "version"}
    assert health["setup"].keys() == {"started_at", "completed_at", "status", "logs"}
    assert health["setup"]["status"] == "succeeded"
    started, completed = health["setup"]["started_at"], health["setup"]["completed_at"]
    assert MOMENT.fullmatch(started)
    assert MOMENT.fullmatch(completed)
    assert started < completed


def test_versions(actions):
    version = actions.health()["version"]
    assert version.keys() >= {"coglet", "git_sha", "build_time", "python_sdk", "python"}
    assert version["coglet"] == version["python_sdk"] == "0.23.1"
    assert version["python"].startswith("3.")


def test_setup_logs(actions):
    logs = actions.health()["setup"]["logs"].splitlines()
    prefix = "[coglet::setup] " if follows_cog(actions, because="setup-log-lines") else ""
    assert f"{prefix}setting up" in logs
    assert f"{prefix}warming" in logs


@STRICT_OR_NOT
def test_the_last_lines_of_a_fast_setup(quick):
    if follows_cog(quick, because="setup-logs"):
        pytest.skip("coglet loses them, by chance")
    assert quick.health()["setup"]["logs"] == "first line\nlast words"


def test_busy_while_the_slot_is_taken(actions):
    actions.until_idle()
    name = actions.start(action="sleep", seconds=30)
    wait_for(lambda: actions.health()["status"] == "BUSY" or None)
    actions.cancel(name)
    actions.until_idle()


def test_health_while_it_starts(starting):
    health = starting.health()
    assert health["status"] == "STARTING"
    assert health["setup"]["status"] == "starting"
    assert "completed_at" not in health["setup"]


def assert_setup_failed(server, cause):
    health = server.health()
    assert health["setup"]["status"] == "failed"
    assert MOMENT.fullmatch(health["setup"]["completed_at"])
    assert cause in health["setup"]["logs"]
    assert server.get("/health-check").status_code == 200
    assert server.process.poll() is None


@pytest.mark.parametrize(
    ("reference", "cause"),
    [
        ("setups.py:Exits", "SystemExit: 3"),
        ("setups.py:Missing", "Missing"),
        ("setups.py:Both", "predict"),
        ("broken.py:Predictor", "No module named 'no_such_module_at_all'"),
        ("nofile.py:Predictor", "nofile.py"),
    ],
)
@STRICT_OR_NOT
def test_a_setup_that_fails(launch, reference, cause):
    assert_setup_failed(launch(reference, until="SETUP_FAILED", schema=False), cause)


def test_the_logs_of_a_setup_that_failed(raising):
    assert_setup_failed(raising, "RuntimeError: no weights")
    logs = raising.health()["setup"]["logs"]
    complete = "before the end\n" in logs and "Traceback (most recent call last)" in logs
    assert complete == expect(raising, coglet=False, mirror=True, because="setup-failure-logs")


@STRICT_OR_NOT
def test_a_process_that_dies_in_setup(launch):
    server = launch("setups.py:Dies", until="up", env={"MAX_CRASHES": "2"})
    final = expect(server, coglet="SETUP_FAILED", mirror="DEFUNCT", because="defunct")
    finals = {"SETUP_FAILED", final}
    health = wait_for(lambda: (h := server.health())["status"] in finals and h or None)
    assert health["setup"]["status"] == "failed"


@STRICT_OR_NOT
def test_a_setup_that_takes_too_long(launch):
    server = launch("setups.py:Slow", until="STARTING", env={"COG_SETUP_TIMEOUT": "1"})
    failed = wait_for(lambda: (h := server.health())["status"] == "SETUP_FAILED" and h or None)
    assert "timed out" in failed["setup"]["logs"]
    assert server.request("POST", "/predictions", {}).status_code == 503
    if not follows_cog(server, because="setup-hang"):
        wait_for(lambda: not server.workers() or None)


HEALTHY = {"true", "none", "zero"}
COMPLAINTS = {
    "false": "Healthcheck failed: user-defined healthcheck returned False",
    "raise": "Healthcheck failed: RuntimeError: no GPU left",
}


@pytest.fixture
def healthy(shared):
    """A predictor with a healthcheck() that does what a file says."""
    server = shared("healthy.py:Predictor")
    (server.folder / "health").write_text("true")
    yield server
    (server.folder / "health").write_text("true")


@pytest.mark.parametrize("word", sorted(HEALTHY))
@STRICT_OR_NOT
def test_a_model_that_is_well(healthy, word):
    (healthy.folder / "health").write_text(word)
    health = healthy.health()
    assert health["status"] == "READY"
    assert "user_healthcheck_error" not in health


@pytest.mark.parametrize("word", sorted(COMPLAINTS))
@STRICT_OR_NOT
def test_a_model_that_is_ill(healthy, word):
    (healthy.folder / "health").write_text(word)
    response = healthy.get("/health-check")
    assert response.status_code == 200
    assert response.json()["status"] == "UNHEALTHY"
    assert response.json()["user_healthcheck_error"] == COMPLAINTS[word]
    assert healthy.post("/predictions", {}).json()["status"] == "succeeded"


@STRICT_OR_NOT
def test_an_ill_model_is_unhealthy_while_busy(healthy):
    healthy.until_idle()
    (healthy.folder / "health").write_text("false")
    with healthy.beginning():
        healthy.start(seconds=0.6)
    assert healthy.health()["status"] == "UNHEALTHY"
    (healthy.folder / "health").write_text("true")
    healthy.until_idle()


@STRICT_OR_NOT
def test_a_healthcheck_that_takes_too_long(healthy):
    (healthy.folder / "health").write_text("sleep 5.5")
    health = healthy.health()
    assert health["status"] == "UNHEALTHY"
    assert health["user_healthcheck_error"] == (
        "Healthcheck failed: user-defined healthcheck timed out after 5.0 seconds"
    )
    (healthy.folder / "health").write_text("true")
    wait_for(lambda: healthy.health()["status"] == "READY" or None)


@STRICT_OR_NOT
def test_who_asks_at_once_shares_one_healthcheck(healthy):
    (healthy.folder / "health").write_text("sleep 0.7")
    calls = healthy.folder / "calls"
    calls.write_text("")
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda _: healthy.health()["status"], range(4)))
    assert statuses == ["READY"] * 4
    assert calls.read_text() == "x"


@STRICT_OR_NOT
def test_an_async_healthcheck(quick):
    assert quick.health()["status"] == "READY"
    (quick.folder / "ill").touch()
    assert quick.health()["user_healthcheck_error"] == COMPLAINTS["false"]
    (quick.folder / "ill").unlink()


def assert_crashed(server, *ends):
    """Each of these says so, and the server goes on as its flavour does."""
    for end in ends:
        assert end["status"] == "failed"
        assert end["error"].startswith("Worker crashed")
        exact = end["error"] == "Worker crashed"
        assert exact == expect(server, coglet=True, mirror=False, because="crash-cause")
    assert server.process.poll() is None
    if follows_cog(server, because="defunct"):
        wait_for(lambda: server.health()["status"] == "UNHEALTHY" or None)
        assert server.request("POST", "/predictions", {}).status_code == 409
    else:
        server.until_idle()
        assert server.output() == "hello"


@STRICT_OR_NOT
def test_a_model_process_that_dies(launch, receiver):
    server = launch("actions.py:Predictor")
    body = {"input": {"action": "die"}, "webhook": f"{receiver.url}/hook"}
    answer = server.request("POST", "/predictions", body).json()
    assert_crashed(server, answer, receiver.final())


@STRICT_OR_NOT
def test_who_runs_when_the_process_dies_fails_too(launch):
    server = launch("asynchronous.py:Predictor", env={"COG_MAX_CONCURRENCY": "2"})
    with ThreadPoolExecutor(1) as pool:
        with server.beginning():
            other = pool.submit(server.predict, action="sleep", seconds=30.0)
        first, second = server.predict(action="die"), other.result(10)
    assert_crashed(server, first, second)
    assert second["metrics"]["own"] == "hello"
