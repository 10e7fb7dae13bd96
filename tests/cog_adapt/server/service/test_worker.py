"""One worker as the dispatcher sees it."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from cog_adapt.server.protocol import (
    AskHealth,
    Cancel,
    Described,
    Finished,
    Health,
    Log,
    Metric,
    Output,
    Ready,
    Run,
    SetupFailed,
    SetupLog,
)
from cog_adapt.server.service.prediction import Prediction, PredictionRequest
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig
from tests.cog_adapt.server.service.harness import PlayedProcess


class Events:
    """Notes what happens."""

    def __init__(self):
        self.calls = []

    def on_run_report(self, worker, report):
        self.calls.append(("run report", worker, report))

    def on_ready(self, report, *, is_again):
        self.calls.append(("ready", report, is_again))

    def on_setup_failed(self, error):
        self.calls.append(("setup failed", error))

    def on_exit(self, worker, cause):
        self.calls.append(("exit", worker, cause))


def made(concurrency=2):
    events = Events()
    worker = Worker(WorkerConfig("x.py:X", concurrency=concurrency), events, Settings())
    worker.process = PlayedProcess()
    return worker, events.calls


def prediction(name):
    async def make():
        request = PredictionRequest(name, "predict", b'{"a":1}', b"{}", {"c": "d"})
        return Prediction(request, history=0)

    return asyncio.run(make())


def test_its_process_has_the_limits_that_are_set():
    settings = Settings(cog_setup_timeout=7, max_crashes=3)
    worker = Worker(WorkerConfig("x.py:X"), Events(), settings)
    assert (worker.process._setup_timeout, worker.process.crashes._max_in_a_row) == (7, 3)
    assert worker.process._listener is worker


def test_what_runs_and_what_begins_takes_a_slot():
    worker, _ = made()
    assert (worker.free_slots, worker.takes_work) == (2, True)
    worker.run(prediction("a"))
    assert (worker.free_slots, worker.takes_work) == (1, True)
    worker.beginning["b"] = prediction("b")
    assert (worker.free_slots, worker.takes_work) == (0, False)
    worker.slots = 1
    assert worker.free_slots == 0


def test_a_process_that_takes_no_work_leaves_slots_unused():
    worker, _ = made()
    worker.process.takes_work = False
    assert (worker.free_slots, worker.takes_work) == (2, False)


def test_a_run_is_handed_over_with_its_input_and_context():
    worker, _ = made()
    one = prediction("a")
    assert worker.run(one) is True
    assert worker.process.said == [Run("a", b'{"a":1}', {"c": "d"}, "a")]
    assert worker.running == {"a": one}


def test_a_run_that_the_process_did_not_get_does_not_run():
    worker, _ = made()
    worker.process.hears = False
    assert worker.run(prediction("a")) is False
    assert worker.running == {}


def test_only_what_runs_here_is_cancelled():
    worker, _ = made()
    worker.run(prediction("a"))
    for name in ("b", "a"):
        worker.cancel(name)
    assert worker.process.said[1:] == [Cancel("a")]


def test_it_starts_only_where_it_may():
    worker, _ = made()
    worker.start()
    assert worker.process.starts == 0
    worker.process.may_start = True
    worker.start()
    assert worker.process.starts == 1


def test_only_a_defunct_worker_is_given_up():
    worker, _ = made()
    worker.process.crashes.last = "was killed"
    assert worker.given_up is None
    worker.process.state = "defunct"
    assert worker.given_up == "the model process has given up: was killed"


@pytest.mark.parametrize(
    "report",
    [Log("a", "stdout", "x"), Output("a", b"1"), Metric("a", "m", b"1"), Finished("a", "failed")],
)
def test_reports_of_runs_are_passed_on(report):
    worker, calls = made()
    worker.on_report(report)
    assert calls == [("run report", worker, report)]


def test_the_second_setup_is_one_again():
    worker, calls = made()
    first, second = Ready(), Ready(b"{}")
    worker.on_report(first)
    worker.on_report(second)
    assert calls == [("ready", first, False), ("ready", second, True)]
    assert worker.ready is second


def test_a_failed_setup_is_passed_on_and_its_log_is_not():
    worker, calls = made()
    worker.on_report(SetupLog("stdout", "x"))
    worker.on_report(SetupFailed("no weights"))
    assert calls == [("setup failed", "no weights")]


@pytest.mark.parametrize(("given", "slots"), [(None, 5), (2, 2), (1, 1)])
def test_the_code_says_how_many_slots_there_are_unless_the_operator_does(given, slots):
    worker, _ = made(given)
    assert worker.slots == (given or 1)
    description = Described(b"{}", 5, is_async=True)
    worker.on_report(description)
    assert (worker.slots, worker.description) == (slots, description)


def test_an_answer_reaches_who_asked_and_the_end_of_the_process_too():
    async def scene():
        worker, calls = made()
        answers = [asyncio.ensure_future(worker.pending.ask(AskHealth(), Health, 5))]
        await asyncio.sleep(0)
        worker.on_report(Health("ill"))
        answers.append(asyncio.ensure_future(worker.pending.ask(AskHealth(), Health, 60)))
        await asyncio.sleep(0)
        worker.on_exit("was killed")
        found = await asyncio.gather(*answers, return_exceptions=True)
        return worker, calls, found

    worker, calls, found = asyncio.run(scene())
    assert found[0] == Health("ill")
    assert isinstance(found[1], TimeoutError)
    assert calls == [("exit", worker, "was killed")]


def test_questions_go_to_the_process():
    async def scene():
        worker = Worker(WorkerConfig("x.py:X"), Events(), Settings())
        sent: list[Any] = []
        process: Any = SimpleNamespace(send=sent.append)
        worker.process._process = process
        with pytest.raises(TimeoutError):
            await worker.pending.ask(AskHealth(), Health, 0.01)
        return sent

    assert asyncio.run(scene()) == [AskHealth()]
