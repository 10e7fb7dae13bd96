"""The front's side of a model process: its end of the socket, and its states."""

import asyncio
import socket
import tempfile

import pytest

from cog_adapt.server.protocol import Finished, Ready, Run, SetupFailed, SetupLog, to_frame
from cog_adapt.server.service.connection import Connection
from cog_adapt.server.service.supervisor import WorkerSupervisor
from cog_adapt.server.worker.config import WorkerConfig

PREDICTOR = """
import os, subprocess, time
class Predictor:
    def setup(self):
        {setup}
    def run(self, text: str = "t") -> str:
        return text
"""


class Ear:
    """Hears everything."""

    def __init__(self):
        self.reports, self.losses = [], []

    def on_report(self, report):
        self.reports.append(report)

    def on_exit(self, cause):
        self.losses.append(cause)

    def heard(self, kind):
        return [report for report in self.reports if isinstance(report, kind)]


async def until(look):
    async with asyncio.timeout(40):
        while not look():
            await asyncio.sleep(0.02)


@pytest.fixture
def play(tmp_path, monkeypatch):
    """Runs a scene with a model process whose setup() has the given body."""
    monkeypatch.chdir(tmp_path)

    def run(scene, setup="pass", **limits):
        (tmp_path / "sample.py").write_text(PREDICTOR.format(setup=setup))

        async def story():
            ear = Ear()
            process = WorkerSupervisor(WorkerConfig("sample.py:Predictor"), ear, **limits)
            try:
                await scene(process, ear)
            finally:
                await process.stop()

        asyncio.run(story())

    return run


def test_what_comes_too_late_changes_nothing(play):
    async def scene(process, ear):
        for state in ("stopped", "setup failed"):
            process.state = state
            process._on_report(Ready())
            process._on_report(SetupFailed("no"))
            assert process.state == state
        assert ear.reports == []

    play(scene)


def test_a_setup_that_takes_too_long_fails_once_and_is_not_tried_again(play):
    async def scene(process, ear):
        process.start()
        await until(lambda: process.may_start)
        assert process.state == "setup failed"
        assert [each.error for each in ear.heard(SetupFailed)] == [
            "worker setup timed out after 0.5 s"
        ]
        assert ear.losses == ["it was stopped"]
        assert "timed out" in process.setup.logs
        assert process.crashes.count == 0

    play(scene, "time.sleep(60)", setup_timeout=0.5)


def test_a_process_is_started_again_until_it_has_died_too_often(play):
    async def scene(process, ear):
        process.start()
        for count in (1, 2):
            await until(lambda: process.takes_work)
            process.kill()
            await until(lambda count=count: process.crashes.count == count)
            assert not process.takes_work
            assert process.run(Run("x", b"{}", {})) is False
        assert process.state == "defunct"
        assert ear.losses == [process.crashes.last] * 2
        assert "SIGKILL" in process.crashes.last
        assert len(ear.heard(Ready)) == 2

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
    async def scene(process, ear):
        process.start()
        await until(lambda: ear.heard(SetupLog))
        await process.stop()
        await asyncio.sleep(0.3)  # longer than the pause before another start
        assert (process.state, process.crashes.count) == ("stopped", 0)
        assert ear.losses == ["it was stopped"]

    play(scene, "print('begun', flush=True); time.sleep(60)")


def link_and_peer(on_report, on_nonsense=None):
    ours, theirs = socket.socketpair()
    return Connection(ours, on_report, on_nonsense), theirs


def test_one_report_that_cannot_be_taken_loses_no_other():
    async def scene():
        heard = []

        def on_report(report):
            heard.append(report.id)
            if report.id == "bad":
                raise ValueError(report.id)

        _, theirs = link_and_peer(on_report)
        names = ["bad", "good", "bad", "better"]
        theirs.sendall(b"".join(to_frame(Finished(name, "succeeded")) for name in names))
        await until(lambda: len(heard) == 4)
        assert heard == names
        theirs.close()

    asyncio.run(scene())


def test_a_peer_that_is_not_understood_is_left():
    async def scene():
        faults = []
        link, theirs = link_and_peer(lambda _: None, lambda: faults.append(1))
        theirs.sendall(b"\x00\x00\x00\x02hi")
        theirs.setblocking(False)
        assert await asyncio.get_running_loop().sock_recv(theirs, 1) == b""
        assert faults == [1]
        assert link.write(b"x") is False
        theirs.close()

    asyncio.run(scene())


def test_a_frame_larger_than_the_socket_takes_arrives_whole():
    async def scene():
        link, theirs = link_and_peer(lambda _: None)
        theirs.setblocking(False)
        frame = bytes(range(256)) * 20_000
        assert link.write(frame)
        assert link.write(b"end")
        got = b""
        while len(got) < len(frame) + 3:
            got += await asyncio.get_running_loop().sock_recv(theirs, 2**20)
        assert got == frame + b"end"
        theirs.close()
        await asyncio.sleep(0.05)
        assert link.write(b"x") is False

    asyncio.run(scene())
