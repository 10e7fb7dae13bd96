"""One worker as the dispatcher sees it, over a played process."""

import asyncio

import pytest

from cog_adapt.server.protocol import (
    AskHealth,
    Cancel,
    Described,
    Health,
    Ready,
    SetupFailed,
)
from cog_adapt.server.service.prediction import Prediction, PredictionSpec
from cog_adapt.server.service.worker import Worker
from cog_adapt.server.settings import Settings
from cog_adapt.server.worker.config import WorkerConfig
from tests.cog_adapt.server.service.harness import PlayedProcess
from tests.cog_adapt.waiting import assert_stays_so, until


class Events:
    """Notes what happens."""

    def __init__(self):
        self.calls = []

    def on_run_report(self, worker, report):
        self.calls.append(("run report", worker, report))

    def on_ready(self, worker, report, *, is_again):
        self.calls.append(("ready", report, is_again))

    def on_setup_failed(self, worker, error):
        self.calls.append(("setup failed", error))

    def on_adapter_changed(self, worker, report):
        self.calls.append(("adapter changed", worker, report))

    def on_exit(self, worker, cause):
        self.calls.append(("exit", worker, cause))


@pytest.fixture
def play():
    """Runs a scene with a worker whose process is played, and has not been started."""

    def run(scene, concurrency=2, **settings):
        async def story():
            events, process = Events(), PlayedProcess()
            config = WorkerConfig("x.py:X", concurrency=concurrency)
            worker = Worker(config, events, Settings(**settings))
            worker.open_process = process.open
            await asyncio.wait_for(scene(worker, process, events.calls), 30)
            await worker.stop()

        asyncio.run(story())

    return run


def set_up(worker):
    worker.start()
    worker.on_report(Ready())


def prediction(name, crashes=0):
    request = PredictionSpec(name, "predict", b'{"a":1}', b"{}", {"c": "d"})
    made = Prediction(request, history=0)
    made.crashes = crashes
    return made


def die(worker, process, cause="was killed"):
    process.takes_work = False
    process.exited.set()
    worker.on_exit(cause)


async def come_back(worker, process):
    """Wait for the start after a crash, and set the process up."""
    starts = process.starts
    await until(lambda: process.starts > starts)
    process.takes_work = True
    worker.on_report(Ready())


def test_what_runs_and_what_begins_takes_a_slot(play):
    async def scene(worker, _, __):
        set_up(worker)
        assert (worker.free_slots, worker.takes_work) == (2, True)
        worker.run(prediction("a"))
        assert (worker.free_slots, worker.takes_work) == (1, True)
        worker.beginning["b"] = prediction("b")
        assert (worker.free_slots, worker.takes_work) == (0, False)
        worker.slots = 1
        assert worker.free_slots == 0

    play(scene)


def test_before_its_setup_and_after_its_death_the_process_gets_no_work(play):
    async def scene(worker, process, _):
        assert not worker.takes_work
        worker.start()
        assert not worker.takes_work
        worker.on_report(Ready())
        assert worker.takes_work
        process.takes_work = False  # it was killed, and its exit is not noticed yet
        assert (worker.state, worker.free_slots, worker.takes_work) == ("ready", 2, False)

    play(scene)


def test_only_what_runs_here_is_cancelled(play):
    async def scene(worker, process, _):
        set_up(worker)
        worker.run(prediction("a"))
        for name in ("b", "a"):
            worker.cancel(name)
        assert process.said[1:] == [Cancel("a")]

    play(scene)


def test_a_worker_starts_once_and_again_after_a_setup_that_failed(play):
    async def scene(worker, process, calls):
        assert worker.state == "idle"
        for _ in range(2):
            worker.start()
        assert (worker.state, process.starts) == ("starting", 1)
        worker.on_report(SetupFailed("no weights", b'{"passed":false}'))
        assert (worker.state, worker.setup.self_test) == ("setup failed", b'{"passed":false}')
        assert (process.kills, calls) == ([None], [("setup failed", "no weights")])
        worker.start()  # its process has not ended yet
        assert process.starts == 1
        die(worker, process)
        assert calls[1:] == [("exit", worker, "it was stopped")]
        assert worker.crashes == 0
        worker.start()
        assert (worker.state, process.starts, worker.setup.self_test) == ("starting", 2, None)

    play(scene)


@pytest.mark.parametrize("state", ["stopped", "setup failed"])
def test_what_comes_too_late_from_a_setup_changes_nothing(play, state):
    async def scene(worker, _, calls):
        worker.start()
        worker.state = state
        for report in (Described(b"{}", 5, is_async=True), Ready(), SetupFailed("no")):
            worker.on_report(report)
        assert (worker.state, worker.ready, worker.description, calls) == (state, None, None, [])

    play(scene)


def test_a_setup_in_time_is_not_ended_afterwards(play):
    async def scene(worker, process, _):
        set_up(worker)
        await assert_stays_so(lambda: not process.kills, 0.15)

    play(scene, cog_setup_timeout=0.05)


def test_a_process_that_dies_in_its_first_setup_is_not_started_again(play):
    async def scene(worker, process, calls):
        worker.start()
        die(worker, process)
        assert calls == [
            ("setup failed", "worker crashed during setup: was killed"),
            ("exit", worker, "was killed"),
        ]
        await assert_stays_so(lambda: process.starts == 1, 0.15)  # the pause is 0.1 s
        assert (worker.state, worker.crashes) == ("setup failed", 1)

    play(scene)


def test_a_process_is_started_again_until_it_has_died_too_often(play, pauses):
    async def scene(worker, process, calls):
        set_up(worker)
        for count in (1, 2):
            die(worker, process, f"cause {count}")
            assert worker.state == ("crashed", "defunct")[count - 1]
            assert (worker.crashes, worker.last_crash) == (count, f"cause {count}")
            assert not worker.takes_work
            await come_back(worker, process)
            assert (worker.state, worker.takes_work) == ("ready", True)
        assert pauses == [(1, 2), (2, 2)]
        assert [call[0] for call in calls] == ["ready", "exit", "ready", "exit", "ready"]
        assert [call[2] for call in calls if call[0] == "ready"] == [False, True, True]

    play(scene, max_crashes=2)


def test_a_minute_without_a_crash_begins_a_new_row_of_crashes(play, pauses, monkeypatch):
    async def scene(worker, process, _):
        loop, later = asyncio.get_running_loop(), []
        call_later = loop.call_later

        def note(*when):
            later.append(when)
            return call_later(*when)

        monkeypatch.setattr(loop, "call_later", note)
        set_up(worker)
        ((seconds, forgive),) = later
        for _ in range(2):
            die(worker, process)
            assert worker.state == "crashed"
            await come_back(worker, process)
            forgive()
        assert seconds == 60

    play(scene, max_crashes=2)


def test_setups_that_fail_after_a_crash_are_crashes_and_a_defunct_worker_stays_so(play, pauses):
    async def scene(worker, process, calls):
        set_up(worker)
        die(worker, process)
        for number in (2, 3):
            await until(lambda number=number: process.starts == number)
            assert worker.state == "defunct"
            worker.on_report(SetupFailed("no device"))
            assert process.kills[-1] is None
            die(worker, process)
            assert worker.last_crash == "failed in its setup: no device"
        await come_back(worker, process)
        assert (worker.state, worker.crashes) == ("ready", 3)
        assert pauses == [(1, 1), (2, 1), (3, 1)]
        assert "setup failed" not in [call[0] for call in calls]

    play(scene, max_crashes=1)


@pytest.mark.parametrize("how", ["explained", "replaced"])
def test_what_one_prediction_does_is_no_crash_in_a_row(play, pauses, how):
    async def scene(worker, process, _):
        set_up(worker)
        for count in (1, 2, 3):
            if how == "explained":
                worker.running["a"] = prediction("a", crashes=1)
            else:
                worker.replace("for one")
                assert process.kills[-1] == "for one"
            die(worker, process)
            assert (worker.state, worker.crashes) == ("crashed", count)
            assert worker.was_replaced is (how == "replaced")
            worker.running.clear()
            await come_back(worker, process)
            assert not worker.was_replaced
        assert pauses == [(0, 1)] * 3

    play(scene, max_crashes=1)


def test_a_worker_that_is_stopped_stays_so(play):
    async def scene(worker, process, calls):
        set_up(worker)
        await worker.stop()
        die(worker, process)
        await assert_stays_so(lambda: worker.state == "stopped", 0.15)  # the pause is 0.1 s
        assert (process.starts, worker.crashes, process.kills) == (1, 0, [])
        assert calls[1:] == [("exit", worker, "it was stopped")]

    play(scene)


def test_a_worker_that_is_stopped_after_a_crash_is_not_started_again(play):
    async def scene(worker, process, _):
        set_up(worker)
        die(worker, process)
        await worker.stop()
        await assert_stays_so(lambda: process.starts == 1, 0.15)  # the pause is 0.1 s

    play(scene)


@pytest.mark.parametrize("state", ["starting", "defunct"])
def test_a_worker_that_is_stopped_in_its_setup_is_killed_at_once(play, state):
    async def scene(worker, process, _):
        worker.start()
        worker.state = state
        await worker.stop()
        assert (worker.state, process.kills) == ("stopped", [None])

    play(scene)


def test_an_answer_reaches_who_asked_and_the_end_of_the_process_too(play):
    async def scene(worker, process, calls):
        set_up(worker)
        answers = [asyncio.ensure_future(worker.pending.ask(AskHealth(), Health, 5))]
        await asyncio.sleep(0)
        worker.on_report(Health("ill"))
        answers.append(asyncio.ensure_future(worker.pending.ask(AskHealth(), Health, 60)))
        await asyncio.sleep(0)
        assert process.said == [AskHealth()] * 2
        die(worker, process)
        found = await asyncio.gather(*answers, return_exceptions=True)
        assert found[0] == Health("ill")
        assert isinstance(found[1], TimeoutError)
        assert calls[1:] == [("exit", worker, "was killed")]

    play(scene)


@pytest.fixture
def pauses(monkeypatch):
    """Asks for pauses as the worker does, and makes them short."""
    asked = []

    def pause(crashes, most):
        asked.append((crashes, most))
        return 0.01

    monkeypatch.setattr("cog_adapt.server.service.worker.pause_before_start", pause)
    return asked
