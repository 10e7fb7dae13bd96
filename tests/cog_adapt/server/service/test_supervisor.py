"""The states of a worker: started, watched, and started again after a crash."""

import asyncio
import os
import signal
import tempfile

import pytest

from cog_adapt.server.protocol import Ready, Run, SetupFailed, SetupLog
from cog_adapt.server.service.supervisor import WorkerSupervisor
from cog_adapt.server.worker.config import WorkerConfig
from tests.cog_adapt.waiting import assert_stays_so, until

PREDICTOR = """
import os, subprocess, time
class Predictor:
    def setup(self):
        {setup}
    def run(self, text: str = "t") -> str:
        return text
"""


class Listener:
    """Keeps all that is reported."""

    def __init__(self):
        self.reports, self.exits, self.explains = [], [], False

    def on_report(self, report):
        self.reports.append(report)

    def on_exit(self, cause):
        self.exits.append(cause)

    def explains_crash(self):
        return self.explains

    def of_kind(self, kind):
        return [report for report in self.reports if isinstance(report, kind)]


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Runs a scene with a model process whose setup() has the given body."""
    monkeypatch.chdir(tmp_path)

    def run(scene, setup="pass", **limits):
        (tmp_path / "sample.py").write_text(PREDICTOR.format(setup=setup))

        async def story():
            listener = Listener()
            process = WorkerSupervisor(WorkerConfig("sample.py:Predictor"), listener, **limits)
            try:
                await scene(process, listener)
            finally:
                await process.stop()

        asyncio.run(story())

    return run


def test_what_comes_too_late_changes_nothing(play):
    async def scene(process, listener):
        for state in ("stopped", "setup failed"):
            process.state = state
            process._on_report(Ready())
            process._on_report(SetupFailed("no"))
            assert process.state == state
        assert listener.reports == []

    play(scene)


def test_what_a_failed_setups_self_test_found_stays_until_the_next_setup(play):
    async def scene(process, listener):
        process.start()
        process._on_report(SetupFailed("no gradient", b'{"passed":false}'))
        assert process.state == "setup failed"
        assert process.setup.self_test == b'{"passed":false}'
        await until(lambda: process.may_start)
        process.start()
        assert process.setup.self_test is None

    play(scene, "time.sleep(60)")


def test_a_setup_that_takes_too_long_fails_once_and_is_not_tried_again(play):
    async def scene(process, listener):
        process.start()
        await until(lambda: process.may_start)
        assert process.state == "setup failed"
        assert [each.error for each in listener.of_kind(SetupFailed)] == [
            "worker setup timed out after 0.5 s"
        ]
        assert listener.exits == ["it was stopped"]
        assert "timed out" in process.setup.logs
        assert process.crashes.count == 0

    play(scene, "time.sleep(60)", setup_timeout=0.5)


def test_a_process_is_started_again_until_it_has_died_too_often(play):
    async def scene(process, listener):
        process.start()
        for count in (1, 2):
            await until(lambda: process.takes_work)
            process.kill()
            await until(lambda count=count: process.crashes.count == count)
            assert not process.takes_work
            assert process.send(Run("x", b"{}", {})) is False
        assert process.state == "defunct"
        assert listener.exits == [process.crashes.last] * 2
        assert "SIGKILL" in process.crashes.last
        assert len(listener.of_kind(Ready)) == 2

    play(scene, max_crashes=2)


def test_what_a_killed_process_could_not_remove_is_removed(play, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def scene(process, _):
        process.start()
        await until(lambda: process.takes_work)
        its, other = (tmp_path / f"{prefix}x.txt" for prefix in (process.prefix, "tmp"))
        for file in (its, other):
            file.touch()
        process.kill()
        await until(lambda: process.crashes.count == 1)
        assert (its.exists(), other.exists()) == (False, True)

    play(scene)


def test_work_that_has_ended_forgives_earlier_deaths(play):
    async def scene(process, _):
        process.start()
        for count in (1, 2):
            await until(lambda: process.takes_work)
            process.crashes.forgive()
            process.kill()
            await until(lambda count=count: process.crashes.count == count)
        assert process.state == "crashed"

    play(scene, max_crashes=2)


def test_a_process_that_is_stopped_in_its_setup_stays_ended(play):
    async def scene(process, listener):
        process.start()
        await until(lambda: listener.of_kind(SetupLog))
        await process.stop()
        # longer than the pause before another start
        await assert_stays_so(lambda: process.state == "stopped", 0.3)
        assert process.crashes.count == 0
        assert listener.exits == ["it was stopped"]

    play(scene, "print('begun', flush=True); time.sleep(60)")


def test_a_defunct_one_is_tried_again_and_comes_back_by_itself(play, monkeypatch, tmp_path):
    monkeypatch.setattr("cog_adapt.server.service.crashes._REST", 0.3)

    async def scene(process, listener):
        process.start()
        await until(lambda: process.takes_work)
        (tmp_path / "broken").touch()
        process.kill()
        await until(lambda: process.crashes.count == 3)  # the second and third time in setup()
        assert (process.state, process.takes_work, process.has_been_ready) == (
            "defunct",
            False,
            True,
        )
        assert "RuntimeError" in process.crashes.last
        (tmp_path / "broken").unlink()
        seen = set()

        def is_there():
            seen.add(process.state)
            return process.takes_work

        await until(is_there)
        assert seen == {"defunct", "ready"}
        assert listener.of_kind(SetupFailed) == []

    setup = "if os.path.exists('broken'): raise RuntimeError('no device')"
    play(scene, setup, max_crashes=1)


def test_a_defunct_one_can_be_stopped_while_it_is_tried_again(play, monkeypatch, tmp_path):
    monkeypatch.setattr("cog_adapt.server.service.crashes._REST", 0.1)

    async def scene(process, listener):
        process.start()
        await until(lambda: process.takes_work)
        (tmp_path / "broken").touch()
        process.kill()
        await until(lambda: "begun" in process.setup.logs)
        assert process.state == "defunct"
        await asyncio.wait_for(process.stop(), 2)
        assert process.state == "stopped"

    setup = "if os.path.exists('broken'): print('begun', flush=True); time.sleep(60)"
    play(scene, setup, max_crashes=1)


@pytest.mark.parametrize("how", ["explained", "replaced"])
def test_what_one_prediction_does_is_no_crash_in_a_row(play, how):
    async def scene(process, listener):
        listener.explains = how == "explained"
        process.start()
        for count in (1, 2, 3):
            await until(lambda: process.takes_work)
            assert not process.was_replaced
            process.kill() if listener.explains else process.replace("for one")
            assert not process.takes_work  # though its exit is not noticed yet
            await until(lambda count=count: process.crashes.count == count)
            assert process.state == "crashed"
            assert process.was_replaced is (how == "replaced")
        assert listener.exits == [process.crashes.last] * 3
        assert ("SIGKILL" in process.crashes.last) is listener.explains

    play(scene, max_crashes=1)


def test_one_that_is_stopped_by_a_signal_is_ended_all_the_same(play):
    async def scene(process, listener):
        process.start()
        await until(lambda: process.takes_work)
        os.kill(process._process._process.pid, signal.SIGSTOP)
        await asyncio.wait_for(process.stop(), 4)
        assert listener.exits == ["it was stopped"]

    play(scene)
