"""A worker process from its start to its exit."""

import asyncio
import contextlib
import os
import signal
import tempfile
from dataclasses import replace
from typing import Any

import pytest

from cog_adapt.server.protocol import AskHealth, Beat, Cancel, Finished, Health, Ready, Run, Stop
from cog_adapt.server.service.worker_process import WorkerProcess, _cause
from cog_adapt.server.temp_files import new_prefix
from cog_adapt.server.worker.config import WorkerConfig
from tests.cog_adapt.waiting import assert_stays_so, until

PREDICTOR = """
import os, subprocess, time
class Predictor:
    def setup(self):
        self.child = subprocess.Popen(["sleep", "600"])
        fork = os.fork()
        if fork == 0:
            os.setpgrp()  # with every descriptor of its parent, and out of its group
            time.sleep(600)
        with open("child", "w") as file:
            file.write(f"{self.child.pid} {fork}")
    def run(self, seconds: float = 0.0) -> str:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.005)  # a cancel comes between two steps
        return "done"
"""


def is_alive(process):
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Runs a scene with a process that has been set up."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "sample.py").write_text(PREDICTOR)

    def run(scene):
        async def story():
            reports: list[Any] = []
            exits: list[Any] = []
            config = replace(WorkerConfig("sample.py:Predictor"), prefix=new_prefix())
            process = WorkerProcess(config, reports.append, exits.append)
            try:
                await until(lambda: any(isinstance(report, Ready) for report in reports))
                await scene(process, reports, exits)
            finally:
                process.kill()
                await until(process.exited.is_set)

        asyncio.run(story())

    return run


def test_a_run_is_reported_until_its_end_and_a_stop_lets_it_end(play):
    async def scene(process, reports, exits):
        assert process.send(Run("a", b'{"seconds":0.3}', {}))
        process.send(AskHealth())
        process.send(Stop())
        await until(process.exited.is_set)
        assert exits == ["exited with code 0"]
        final: list[Any] = [each for each in reports if isinstance(each, Finished | Health)]
        assert final[-1].id == "a"
        assert Health() in reports

    play(scene)


def test_a_cancel_reaches_the_run_that_was_sent_before_it(play):
    async def scene(process, reports, _):
        assert process.send(Run("a", b'{"seconds":30}', {}))
        process.send(Cancel("a"))
        await until(lambda: isinstance(reports[-1], Finished))
        assert (reports[-1].id, reports[-1].status) == ("a", "canceled")

    play(scene)


def test_a_killed_process_takes_along_what_it_started_and_its_files(play, tmp_path):
    async def scene(process, _, exits):
        children = [int(each) for each in (tmp_path / "child").read_text().split()]
        left, other = (tmp_path / f"{prefix}x" for prefix in (process._config.prefix, "other"))
        left.touch()
        other.touch()
        assert all(map(is_alive, children))
        process.kill()
        await until(process.exited.is_set)
        assert exits == ["was killed by signal 9 (SIGKILL)"]
        await until(lambda: not any(map(is_alive, children)))
        assert (left.exists(), other.exists()) == (False, True)
        assert process.send(Run("a", b"{}", {})) is False
        process.send(Cancel("a"))
        process.send(AskHealth())
        process.send(Stop())
        process.kill()
        await assert_stays_so(lambda: len(exits) == 1, 0.1)

    play(scene)


def test_the_death_of_a_process_is_seen_though_its_fork_holds_every_descriptor(play, tmp_path):
    async def scene(process, _, exits):
        os.kill(process._process.pid, signal.SIGSEGV)
        await until(lambda: exits)
        assert exits == ["was killed by signal 11 (SIGSEGV)"]
        children = [int(each) for each in (tmp_path / "child").read_text().split()]
        await until(lambda: not any(map(is_alive, children)))

    play(scene)


def test_a_process_is_killed_for_a_cause_while_it_is_stopped(play):
    async def scene(process, _, exits):
        os.kill(process._process.pid, signal.SIGSTOP)
        process.kill("hung")
        process.kill("and again")
        await until(lambda: exits)
        assert exits == ["hung"]

    play(scene)


def test_without_a_handle_of_the_kernels_the_pipe_tells(monkeypatch, play, tmp_path):
    monkeypatch.delattr(os, "pidfd_open")

    async def scene(process, _, exits):
        children = [int(each) for each in (tmp_path / "child").read_text().split()]
        for each in (*children, process._process.pid):
            os.kill(each, signal.SIGKILL)
        await until(lambda: exits)

    play(scene)


def test_a_process_that_talks_nonsense_is_ended(play):
    async def scene(process, _, exits):
        process._connection._on_end("said what is no report, and was killed")
        await until(lambda: exits)
        assert exits == ["said what is no report, and was killed"]

    play(scene)


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (0, "exited with code 0"),
        (3, "exited with code 3"),
        (None, "exited with code None"),
        (-15, "was killed by signal 15 (SIGTERM)"),
        (-1, "was killed by signal 1 (SIGHUP)"),
        (-200, "exited with code -200"),
    ],
)
def test_an_exit_in_words(code, cause):
    assert _cause(code) == cause


def test_the_test_can_see_a_process():
    assert is_alive(os.getpid())


TICKING = """
import time
class Predictor:
    def setup(self):
        self.beat = (0.0, 0.0)
    def model_thread_beat(self):
        return self.beat
    def run(self, busy: float, allowed: float) -> str:
        self.beat = (busy, allowed)
        time.sleep(1)
        return "done"
"""


def test_a_process_whose_model_thread_ends_no_tick_is_killed_unless_the_tick_said_so(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ticking.py").write_text(TICKING)

    async def story():
        reports: list[Any] = []
        exits: list[Any] = []
        config = WorkerConfig("ticking.py:Predictor", prefix=new_prefix(), hang_seconds=2)
        process = WorkerProcess(config, reports.append, exits.append)
        await until(lambda: any(isinstance(report, Ready) for report in reports))
        process.send(Run("a", b'{"busy":99,"allowed":100}', {}))
        await until(lambda: isinstance(reports[-1], Finished))
        assert exits == []
        process.send(Run("b", b'{"busy":99,"allowed":0}', {}))
        await until(lambda: exits)
        assert exits == [
            "hung: its model thread ended no tick for 99 s, at most 2 s are allowed "
            "(HANG_SECONDS), and it was killed"
        ]
        assert {type(report) for report in reports}.isdisjoint({Beat})

    asyncio.run(story())
