"""A worker, and what it has started, end with the front process, whatever they do."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cog_adapt.server.worker import guard
from cog_adapt.server.worker.config import WorkerConfig
from gradient_check.tests.present import present
from tests.cog_adapt.server.worker.conftest import SECONDS, is_alive
from tests.cog_adapt.waiting import wait_until

FRONT = """
import os, signal, subprocess, sys, time
from cog_adapt.server.worker.config import WorkerConfig
from cog_adapt.server.worker.guard import end_with, start_guard
out = os.fdopen(os.dup(1), "w")
front = os.getpid()
config = WorkerConfig("x.py:X", prefix="tmpguard_")
worker = os.fork()
if worker == 0:
    os.setsid()
    {guarded}
    program = subprocess.Popen(["sleep", "600"])
    fork = os.fork()
    if fork == 0:
        os.setpgrp()  # out of the group, not of the session
        time.sleep(600)
    print(os.getpid(), program.pid, fork, flush=True, file=out)
    {then}
    time.sleep(600)
{front}
os.waitpid(worker, 0)
time.sleep(600)
"""


@pytest.fixture
def start():
    """Start a front process with a worker; give both and what the worker has started."""
    fronts = []

    def begin(guarded="end_with(front); start_guard(front, config)", then="pass", front="pass"):
        source = FRONT.format(guarded=guarded, then=then, front=front)
        process = subprocess.Popen(
            [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, cwd=os.getcwd()
        )
        fronts.append(process)
        line = present(process.stdout).readline()
        return process, [int(each) for each in line.split()]

    yield begin
    for each in fronts:
        each.kill()
        each.wait(SECONDS)
        present(each.stdout).close()


def guard_of(worker):
    """The process with the command line of the worker that leads another session."""
    wait_until(lambda: _guards_of(worker))  # it makes its session when both have gone on
    [found] = _guards_of(worker)
    return found


def _guards_of(worker):
    own = Path(f"/proc/{worker}/cmdline").read_bytes()
    found = []
    for each in (int(name) for name in os.listdir("/proc") if name.isdecimal()):
        try:
            if Path(f"/proc/{each}/cmdline").read_bytes() == own and os.getsid(each) == each:
                found.append(each)
        except OSError:
            continue
    return [each for each in found if each != worker]


@pytest.mark.parametrize(
    "then",
    [
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "import ctypes; ctypes.PyDLL(None).usleep(600_000_000)",
    ],
)
def test_a_killed_front_takes_a_worker_that_hangs_and_all_it_started_along(start, then):
    front, processes = start(then=then)
    file = Path(tempfile.gettempdir(), "tmpguard_x")
    file.touch()
    assert all(map(is_alive, processes))
    front.kill()
    wait_until(lambda: not any(map(is_alive, processes)))
    wait_until(lambda: not file.exists())


def test_without_the_guard_the_kernel_still_ends_the_worker(start):
    front, [worker, *started] = start(guarded="end_with(front)")
    front.kill()
    wait_until(lambda: not is_alive(worker))
    for each in started:
        os.kill(each, signal.SIGKILL)


def test_the_guard_alone_ends_the_worker_too(start):
    front, processes = start(guarded="start_guard(front, config)")
    front.kill()
    wait_until(lambda: not any(map(is_alive, processes)))


def test_the_guard_leaves_with_the_worker_while_the_front_lives(start):
    front, [worker, *started] = start()
    its = guard_of(worker)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not is_alive(its))
    assert front.poll() is None
    assert all(map(is_alive, started))  # the front process ends them
    for each in started:
        os.kill(each, signal.SIGKILL)


def test_the_guard_is_no_child_of_either(start):
    front, [worker, *started] = start()
    its = guard_of(worker)
    children = Path(f"/proc/{worker}/task/{worker}/children").read_text().split()
    assert sorted(map(int, children)) == sorted(started)
    assert Path(f"/proc/{front.pid}/task/{front.pid}/children").read_text().split() == [str(worker)]
    os.kill(its, signal.SIGTERM)
    os.kill(its, signal.SIGINT)
    front.kill()
    wait_until(lambda: not any(map(is_alive, started)))


def test_a_worker_whose_front_ended_before_the_kernel_knew_ends_itself():
    code = "from cog_adapt.server.worker.guard import end_with; end_with(1 << 22); print('lives')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=os.getcwd(), check=False
    )
    assert (done.returncode, done.stdout) == (1, "")


def test_where_the_kernel_has_no_handles_there_is_no_guard(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("it has forked"))
    assert guard.start_guard(1, WorkerConfig("x.py:X")) is None
