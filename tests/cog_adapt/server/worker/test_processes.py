"""The processes that a model has started."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cog_adapt.server.worker.processes import descendants, end_newer_than, end_session
from gradient_check.tests.present import present
from tests.cog_adapt.server.worker.conftest import is_alive
from tests.cog_adapt.waiting import wait_until

TREE = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True)"


@pytest.fixture
def start():
    started = []

    def begin(*command):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()
        present(process.stdout).close()


def test_children_and_their_children_are_below_this_process(start):
    before = descendants()
    child = start(sys.executable, "-c", f"{TREE}; p.wait()")
    grandchild = int(child.stdout.readline())
    assert descendants() - before == {child.pid, grandchild}
    os.kill(grandchild, signal.SIGKILL)


def test_one_that_nobody_has_waited_for_counts(start):
    child = start("true")
    wait_until(lambda: " Z " in Path(f"/proc/{child.pid}/stat").read_text())
    assert child.pid in descendants()
    child.wait()
    assert child.pid not in descendants()


def test_without_new_ones_there_is_no_thread(monkeypatch, start):
    started = []
    monkeypatch.setattr(threading, "Thread", lambda **k: started.append(k))
    start("sleep", "60")
    end_newer_than(descendants())
    assert not started


def test_one_that_has_ended_or_is_anothers_is_passed_over(start, monkeypatch):
    before = descendants()
    ours, other = start("sleep", "60"), start("sleep", "60")
    kill = os.kill

    def refuse_some(process, number):
        if process == other.pid:
            raise PermissionError
        kill(process, number)

    monkeypatch.setattr(os, "kill", refuse_some)
    end_newer_than(before)
    assert ours.wait(10) == -signal.SIGTERM
    assert other.poll() is None
    monkeypatch.undo()


def test_a_process_without_children_is_seen_to_have_none_at_once(start, monkeypatch):
    def waitid(*_):
        raise ChildProcessError

    start("sleep", "60")
    monkeypatch.setattr(os, "waitid", waitid)
    assert descendants() == set()


LEADER = """
import os, subprocess, sys
os.setsid()
orphan = subprocess.check_output(["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], text=True)
own = subprocess.Popen(["sleep", "60"], process_group=0, stdout=subprocess.DEVNULL)
print(orphan.strip(), own.pid, flush=True)
own.wait()
"""


def test_the_end_of_a_session_is_that_of_its_groups_and_orphans(start):
    """The orphan is in the leader's group, the other in one of its own."""
    other, leader = start("sleep", "60"), start(sys.executable, "-c", LEADER)
    ids = [int(each) for each in leader.stdout.readline().split()]
    assert {os.getsid(each) for each in ids} == {leader.pid}
    end_session(leader.pid)
    assert leader.wait(10) == -signal.SIGKILL
    wait_until(lambda: not any(map(is_alive, ids)))
    assert other.poll() is None


def test_a_group_whose_leaders_group_is_gone_is_ended_by_its_session(start):
    leader = start(sys.executable, "-c", LEADER.replace("own.wait()", "os._exit(0)"))
    ids = [int(each) for each in leader.stdout.readline().split()]
    wait_until(lambda: " Z " in Path(f"/proc/{leader.pid}/stat").read_text())
    end_session(leader.pid)
    wait_until(lambda: not any(map(is_alive, ids)))
