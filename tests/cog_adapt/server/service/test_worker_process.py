"""A worker process from its start to its exit."""

import asyncio
import contextlib
import multiprocessing
import os
import signal
import tempfile
from dataclasses import replace
from typing import Any

import pytest

from cog_adapt.server.files.temp_files import new_prefix
from cog_adapt.server.protocol import (
    AskHealth,
    Beat,
    Cancel,
    Finished,
    Health,
    Output,
    Ready,
    Run,
    Stop,
)
from cog_adapt.server.service.worker_process import WorkerProcess
from cog_adapt.server.worker.config import WorkerConfig
from tests.cog_adapt.server.service import peers
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
def pid_of_process():
    """Finds the only process that this test started; other tests may have left some."""
    before = {process.pid for process in multiprocessing.active_children()}

    def find():
        (pid,) = {process.pid for process in multiprocessing.active_children()} - before
        return pid

    return find


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
            config = replace(WorkerConfig("sample.py:Predictor"), prefix="tmp01234567_")
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


def test_a_process_that_is_killed_while_it_is_stopped_takes_along_what_it_started_and_its_files(
    play, pid_of_process, tmp_path
):
    async def scene(process, _, exits):
        children = [int(each) for each in (tmp_path / "child").read_text().split()]
        left, other = (tmp_path / f"{prefix}x" for prefix in ("tmp01234567_", "other"))
        left.touch()
        other.touch()
        assert all(map(is_alive, children))
        os.kill(pid_of_process(), signal.SIGSTOP)
        process.kill("hung")
        process.kill("and again")
        await until(process.exited.is_set)
        assert exits == ["hung"]
        await until(lambda: not any(map(is_alive, children)))
        assert (left.exists(), other.exists()) == (False, True)
        assert process.send(Run("a", b"{}", {})) is False
        process.send(Cancel("a"))
        process.send(AskHealth())
        process.send(Stop())
        process.kill()
        await assert_stays_so(lambda: len(exits) == 1, 0.1)

    play(scene)


def test_the_death_of_a_process_is_seen_though_its_fork_holds_every_descriptor(
    play, pid_of_process, tmp_path
):
    async def scene(process, _, exits):
        os.kill(pid_of_process(), signal.SIGSEGV)
        await until(lambda: exits)
        assert exits == ["was killed by signal 11 (SIGSEGV)"]
        children = [int(each) for each in (tmp_path / "child").read_text().split()]
        await until(lambda: not any(map(is_alive, children)))

    play(scene)


def test_without_a_handle_of_the_kernels_the_pipe_tells(
    monkeypatch, play, pid_of_process, tmp_path
):
    monkeypatch.delattr(os, "pidfd_open")

    async def scene(process, _, exits):
        children = [int(each) for each in (tmp_path / "child").read_text().split()]
        for each in (*children, pid_of_process()):
            os.kill(each, signal.SIGKILL)
        await until(lambda: exits)

    play(scene)


def test_a_process_that_is_stopped_by_a_signal_is_ended_all_the_same(play, pid_of_process):
    async def scene(process, _, exits):
        os.kill(pid_of_process(), signal.SIGSTOP)
        await process.stop()
        assert exits == ["was killed by signal 9 (SIGKILL)"]

    play(scene)


@pytest.fixture
def meet(monkeypatch, tmp_path):
    """Runs a scene with a process of `peers`; returns what was heard of it, and how it ended."""
    monkeypatch.setattr("cog_adapt.server.service.worker_process.enter", peers.enter)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def run(reference, scene=None, hear=lambda _: None):
        async def story():
            heard: list[Any] = []

            def on_report(report):
                heard.append(report)
                hear(report)

            config = replace(WorkerConfig(reference), prefix=new_prefix())
            process = WorkerProcess(config, on_report, heard.append)
            try:
                if scene is not None:
                    await scene(process, heard)
                await asyncio.wait_for(process.exited.wait(), 30)
            finally:
                process.kill()
            assert process.send(Run("late", b"{}", {})) is False
            return heard

        return asyncio.run(story())

    return run


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        (3, "exited with code 3"),
        (-15, "was killed by signal 15 (SIGTERM)"),
        (-40, "exited with code -40"),
    ],
)
def test_an_exit_in_words(meet, code, cause):
    assert meet(f"exit:{code}") == [cause]


def test_one_report_that_cannot_be_taken_loses_no_other(meet):
    def hear(report):
        if report.id == "bad":
            raise ValueError(report.id)

    *heard, exit_cause = meet("say:bad good bad better", hear=hear)
    assert [each.id for each in heard] == ["bad", "good", "bad", "better"]
    assert exit_cause == "exited with code 0"


def test_what_was_said_before_the_end_is_heard_before_it(meet, pid_of_process, tmp_path):
    async def scene(process, _):
        waits, pid = tmp_path / "waits", pid_of_process()
        await until(waits.exists)
        process.send(Run("go on", b"{}", {}))
        while is_alive(pid):  # and the loop has no turn
            os.sched_yield()

    *heard, exit_cause = meet(f"last words:{tmp_path / 'waits'}", scene)
    assert [each.id for each in heard] == ["large", "page", "page"]
    assert heard[0].chunk == peers.LARGE
    assert exit_cause == "exited with code 0"


def test_requests_larger_than_the_socket_takes_arrive_whole_and_in_order(meet):
    async def scene(process, _):
        for size in (5_000_000, 3, 0):
            assert process.send(Run("a", b"x" * size, {}))

    *heard, _ = meet("repeat:3", scene)
    assert [each.id for each in heard] == ["5000000", "3", "0"]


def test_a_process_that_is_not_understood_is_ended(meet):
    assert meet("babble") == ["sent a message that is no report, and was killed"]


def test_a_process_that_closes_its_socket_is_ended_and_what_waits_for_it_is_dropped(meet):
    async def scene(process, heard):
        await until(lambda: heard)
        process.send(Run("a", b"x" * 5_000_000, {}))

    first, cause = meet("close", scene)
    assert (first.id, cause) == ("last words", "closed its connection, and was killed")


def test_others_have_their_turn_before_and_after_each_large_output(meet):
    """Counted in turns of the loop, of which another has one between any two of these."""
    turns: list[Any] = []
    turn = 0

    async def scene(process, heard):
        def count():
            nonlocal turn
            turn += 1
            if len(heard) < 6:
                asyncio.get_running_loop().call_soon(count)

        count()
        await until(lambda: len(heard) == 6)
        process.kill()

    meet(
        "say and stay:a large large b large c", scene, lambda each: turns.append((turn, type(each)))
    )
    larges = [number for number, kind in turns if kind is Output]
    others = [number for number, kind in turns if kind is not Output]
    assert len(set(larges)) == len(larges) == len(others) == 3
    assert not {*larges} & {others[0], others[-1]}


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
