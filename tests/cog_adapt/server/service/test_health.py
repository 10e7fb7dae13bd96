"""What the server says about its health."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.protocol import AskHealth, Health, Ready
from cog_adapt.server.service.health import HealthMonitor
from cog_adapt.server.service.setup_progress import SetupProgress
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import Place
from gradient_check.tests.present import present

BEGUN = datetime(2026, 1, 2, 3, 4, 5, 67, tzinfo=UTC)
HEALTHY = Ready(has_healthcheck=True)


class Answers:
    """Stands for the worker that is asked; None: it does not answer."""

    def __init__(self, answer=None):
        self.answer, self.asked = answer, []

    async def ask(self, *question):
        self.asked.append(question)
        if self.answer is None:
            raise TimeoutError
        return self.answer


class PlayedWorker:
    """Stands for a worker, whose state a test sets."""

    is_usable = Worker.is_usable

    def __init__(self, place: Place) -> None:
        self.place = place
        self.state = "ready"
        self.setup = SetupProgress()
        self.setup.started_at = self.setup.completed_at = BEGUN
        self.crashes, self.last_crash, self.crashed_at = 0, None, 0.0
        self.free_slots = 1
        self.ready: Ready | None = Ready()
        self.pending: Any = Answers()


def service_of(*workers):
    """A service of these workers; the first one leads."""
    return SimpleNamespace(
        worker=workers[0],
        workers=workers,
        settings=Settings(),
        records=SimpleNamespace(error=None),
        is_closing=False,
    )


@pytest.fixture
def service():
    return service_of(PlayedWorker(Place()))


@pytest.fixture
def two():
    """A service of two workers on two devices."""
    return service_of(PlayedWorker(Place("0", "4")), PlayedWorker(Place("1", "5")))


def report(service):
    return asyncio.run(HealthMonitor(service).report())


def readiness(service):
    return asyncio.run(HealthMonitor(service).readiness())


@pytest.mark.parametrize(
    ("state", "free", "status", "setup"),
    [
        ("idle", 1, "STARTING", "starting"),
        ("starting", 1, "STARTING", "starting"),
        ("ready", 1, "READY", "succeeded"),
        ("ready", 0, "BUSY", "succeeded"),
        ("crashed", 1, "STARTING", "succeeded"),
        ("setup failed", 1, "SETUP_FAILED", "failed"),
        ("defunct", 1, "DEFUNCT", "succeeded"),
        ("stopped", 1, "STARTING", "succeeded"),
    ],
)
def test_each_state_has_cogs_word(service, state, free, status, setup):
    service.worker.state, service.worker.free_slots = state, free
    body = report(service)
    assert (body["status"], body["setup"]["status"]) == (status, setup)
    assert readiness(service)[0] is (status in ("READY", "BUSY"))


def test_a_probe_is_told_no_reason_and_many_share_one_look(service):
    async def scene():
        monitor = HealthMonitor(service)
        probes = await asyncio.gather(*(monitor.readiness_for_probes() for _ in range(9)))
        assert probes == [(False, {"ready": False, "status": "READY"})] * 9
        assert len(service.worker.pending.asked) == 1
        assert "records" in (await monitor.readiness())[1]

    service.records.error = "the disk of ann is full"
    service.worker.ready = HEALTHY
    service.worker.pending = Answers(Health(error=None))
    asyncio.run(scene())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Health(), None),
        (Health("no memory"), "no memory"),
        (None, "Healthcheck failed: user-defined healthcheck timed out after 5.0 seconds"),
    ],
)
def test_the_users_healthcheck_is_asked(service, answer, error):
    service.worker.ready, service.worker.pending = HEALTHY, Answers(answer)
    body = report(service)
    assert body.get("user_healthcheck_error") == error
    assert body["status"] == ("UNHEALTHY" if error else "READY")
    assert service.worker.pending.asked == [(AskHealth(), Health, 5.5)]
    ready, reasons = readiness(service)
    assert ready is (error is None)
    assert reasons.get("user_healthcheck_error") == error


@pytest.mark.parametrize(
    ("ready", "state"), [(Ready(), "ready"), (None, "ready"), (HEALTHY, "crashed")]
)
def test_it_is_not_asked_where_there_is_none_or_nothing_serves(service, ready, state):
    service.worker.ready, service.worker.state = ready, state
    report(service)
    assert service.worker.pending.asked == []


def test_a_process_that_dies_while_it_is_asked_is_not_unhealthy(service):
    class Dying(Answers):
        async def ask(self, *_):
            service.worker.state = "crashed"
            raise TimeoutError

    service.worker.ready, service.worker.pending = HEALTHY, Dying()
    body = report(service)
    assert body["status"] == "STARTING"
    assert "user_healthcheck_error" not in body


@pytest.mark.parametrize(
    ("self_test", "shown", "is_ready"),
    [
        (b'{"passed":true,"n":1}', {"passed": True}, True),
        (b'{"passed":false}', {"passed": False}, False),
        (
            b'{"passed":null,"level":"off","detail":"it is off","reports":[]}',
            {"passed": None, "level": "off", "detail": "it is off"},
            True,
        ),
    ],
)
def test_a_self_test_gates_readiness_unless_it_is_off(service, self_test, shown, is_ready):
    service.worker.ready = Ready(self_test)
    assert report(service)["self_test"] == shown
    ready, reasons = readiness(service)
    assert (ready, reasons.get("self_test")) == (is_ready, None if is_ready else "failed")
    assert reasons["ready"] is is_ready


def test_the_self_test_of_a_failed_setup_is_shown(service):
    monitor = HealthMonitor(service)
    monitor.self_tests[service.worker] = {"passed": True}
    service.worker.state = "setup failed"
    service.worker.setup.self_test = b'{"passed":false,"level":"full","reports":[]}'
    assert present(monitor.last_self_test())["reports"] == []
    body = asyncio.run(monitor.report())
    assert (body["status"], body["self_test"]) == (
        "SETUP_FAILED",
        {"passed": False, "level": "full"},
    )
    service.worker.setup = SetupProgress()
    assert monitor.last_self_test() == {"passed": True}


def test_a_server_that_closes_wants_no_requests(service):
    service.is_closing = True
    assert readiness(service) == (False, {"ready": False, "status": "READY"})


def test_a_fault_of_the_database_gates_readiness_and_is_named(service):
    service.records.error = "the disk is full"
    assert readiness(service) == (
        False,
        {"ready": False, "status": "READY", "records": "the disk is full"},
    )


def test_a_file_that_cannot_be_written_is_no_fault(service, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    service.settings = Settings(kubernetes_service_host="10.0.0.1")
    assert report(service)["status"] == "READY"


def test_two_workers_are_busy_once_all_their_slots_are(two):
    for worker, status in zip(two.workers, ("READY", "BUSY"), strict=True):
        worker.free_slots = 0
        assert report(two)["status"] == status
    worker.state, worker.free_slots = "setup failed", 1
    assert report(two)["status"] == "BUSY"  # the slots of a worker that does not serve are none


def test_crashes_of_two_workers_are_counted_together_and_the_latest_is_told(two):
    first, second = two.workers
    first.crashes, first.last_crash, first.crashed_at = 1, "was killed", 2.0
    second.crashes, second.last_crash, second.crashed_at = 2, "exited", 1.0
    body = report(two)
    assert (body["crashes"], body["last_crash"]) == (3, "was killed")
    assert body["workers"] == [
        {"worker": "0", "device": "4", "state": "ready", "crashes": 1},
        {"worker": "1", "device": "5", "state": "ready", "crashes": 2},
    ]


def test_one_complaint_of_two_degrades_and_both_are_unhealthy(two):
    first, second = two.workers
    first.ready = second.ready = HEALTHY
    first.pending, second.pending = Answers(Health()), Answers(Health("no memory"))
    assert report(two)["status"] == "READY"
    assert report(two)["workers"][1]["fault"] == "no memory"
    assert readiness(two)[1]["degraded"] == ["worker 1 on device 5: no memory"]
    first.pending = Answers(Health("too hot"))
    assert report(two)["status"] == "UNHEALTHY"
    assert readiness(two)[0] is False


def test_the_self_test_of_each_of_two_workers_is_shown_and_a_failure_first(two):
    first, second = two.workers
    first.ready = Ready(b'{"passed":true,"level":"full"}')
    second.ready = Ready(b'{"passed":false,"level":"full","reports":[1]}')
    assert HealthMonitor(two).last_self_test() == {
        "passed": False,
        "level": "full",
        "reports": [1],
        "workers": [
            {"worker": "0", "passed": True, "level": "full"},
            {"worker": "1", "passed": False, "level": "full"},
        ],
    }
    assert readiness(two)[1]["degraded"] == ["worker 1 on device 5: the self-test failed"]
    first.state = "setup failed"  # none is left whose gradients are right
    assert readiness(two)[:1] == (False,)


def test_coglets_form_has_no_workers(two):
    two.settings = Settings(strict_cog=True)
    assert "workers" not in report(two)
