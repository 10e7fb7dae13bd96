"""What the front may ask a model process at any time."""

import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.protocol import (
    Health,
    SelfTested,
)
from cog_adapt.server.worker.active import find_active
from cog_adapt.server.worker.checks import (
    HealthCheck,
    read_gauges,
    run_self_test,
    self_test_of_failure,
)
from gradient_check.tests.present import NOT_USED, present
from tests.cog_adapt.waiting import wait_until


def ask(front, request, answer):
    front.ask(request)
    return front.hear_until(answer)[-1]


class SelfTesting:
    """A predictor that tests itself."""

    def __init__(self, report=None, error=None):
        self.self_test_report, self.error = report, error

    def self_test(self):
        if self.error:
            raise self.error
        return self.self_test_report

    def gauges(self):
        return {"rows": 3, "process_memory_bytes": -1}


class Passed:
    def to_json(self):
        return {"passed": True}


class Broken:
    def to_json(self):
        raise ValueError("no JSON")


def test_a_report_that_cannot_be_read_hides_no_failure_of_setup(capsys):
    assert self_test_of_failure(SelfTesting(Passed())) == b'{"passed":true}'
    assert self_test_of_failure(SelfTesting()) is None
    assert self_test_of_failure(SelfTesting(Broken())) is None
    assert "no JSON" in capsys.readouterr().err


def test_a_self_test_is_run_again_and_its_failure_is_the_answer():
    assert run_self_test(SelfTesting(Passed())) == SelfTested(b'{"passed":true}')
    assert run_self_test(SelfTesting(error=ValueError("x"))) == SelfTested(error="ValueError: x")
    assert run_self_test(object()) == SelfTested()


def test_the_predictors_own_gauges_do_not_replace_the_servers():
    values = read_gauges(SelfTesting()).values
    assert values.keys() == {"rows", "process_memory_bytes"} | device_gauges()
    assert values["rows"] == 3.0
    found = re.search(r"VmRSS:\s+(\d+) kB", Path("/proc/self/status").read_text())
    resident = int(present(found)[1])
    assert values["process_memory_bytes"] == pytest.approx(resident * 1024, rel=0.2)


def device_gauges():
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return set()
    return {"device_memory_bytes", "device_memory_reserved_bytes"}


@pytest.mark.parametrize("is_initialized", [True, False])
def test_the_devices_memory_is_told_once_it_is_used(monkeypatch, is_initialized):
    cuda = SimpleNamespace(
        is_initialized=lambda: is_initialized,
        device_count=lambda: 2,
        memory_allocated=[5, 0].__getitem__,  # the model's device need not be this thread's
        memory_reserved=[3, 4].__getitem__,
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    values = read_gauges(object()).values
    del values["process_memory_bytes"]
    expected = {"device_memory_bytes": 5.0, "device_memory_reserved_bytes": 7.0}
    assert values == (expected if is_initialized else {})


def health_check(function):
    predictor: Any = SimpleNamespace(healthcheck=function)
    return HealthCheck(predictor, NOT_USED)


def test_a_healthcheck_that_hangs_is_not_called_again(monkeypatch):
    monkeypatch.setattr("cog_adapt.server.worker.checks.HEALTHCHECK_SECONDS", 0.2)
    gate, calls = threading.Event(), []

    def healthcheck():
        calls.append(find_active())
        gate.wait(60)

    check = health_check(healthcheck)
    late = "Healthcheck failed: user-defined healthcheck timed out after 5.0 seconds"
    assert [check.ask(), check.ask()] == [Health(late)] * 2
    assert calls == [None]
    gate.set()
    wait_until(lambda: check.ask() == Health() and len(calls) > 1)


@pytest.mark.parametrize("error", [TimeoutError("mine"), SystemExit("mine")])
def test_what_the_healthcheck_raises_is_told_as_such(error):
    def healthcheck():
        raise error

    check = health_check(healthcheck)
    assert check.ask() == Health(f"Healthcheck failed: {type(error).__name__}: mine")
