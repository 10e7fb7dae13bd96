"""Threads that wait spin while cores are free, and sleep while others need them."""

import os
import subprocess
import sys
import threading

import pytest

from cog_adapt.runner.devices import waiting_threads
from cog_adapt.runner.devices.waiting_threads import (
    OthersLoad,
    WaitingThreads,
    are_scarce,
    watch_cores,
)
from tests.cog_adapt.waiting import wait_until

CORES = len(os.sched_getaffinity(0))
TICK = os.sysconf("SC_CLK_TCK")
# Counts how often threads of a small product of matrices went to sleep: spinning, and asleep.
BURSTS = """
import resource, statistics
import cog_adapt.runner
import torch
from cog_adapt.runner.devices.waiting_threads import WaitingThreads
torch.set_num_threads(2)
a, b, waiting = torch.randn(64, 384), torch.randn(384, 384), WaitingThreads(2)
slept = {False: [], True: []}
for turn in range(6):
    waiting.let(sleep=bool(turn % 2))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    for _ in range(60):
        (a @ b).tanh_()
    slept[waiting.sleep].append(resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw - before)
print(*(statistics.median(counts) for counts in slept.values()))
"""


def pools():
    return [thread for thread in threading.enumerate() if thread.name == "pool"]


def test_pools_are_held_for_as_long_as_threads_shall_sleep():
    waiting = WaitingThreads(2)
    assert (waiting.sleep, pools()) == (False, [])
    for _ in range(2):
        waiting.let(sleep=True)
        assert (waiting.sleep, len(pools())) == (True, CORES)  # with two threads one pool has one
    for _ in range(2):
        waiting.let(sleep=False)
        assert (waiting.sleep, pools()) == (False, [])


@pytest.mark.skipif(CORES < 2, reason="needs two cores")
def test_threads_sleep_far_more_often_while_pools_are_held():
    free = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
    own = {name: value for name, value in os.environ.items() if name not in free}
    own["GOMP_SPINCOUNT"] = "1000000000"  # longer than a busy machine lets a thread wait
    command = [sys.executable, "-c", BURSTS]
    done = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
    spinning, asleep = map(float, done.stdout.split())
    assert asleep > 10 * spinning


def test_the_load_of_others_is_what_this_process_did_not_do(tmp_path):
    stat, clocks = tmp_path / "stat", [10.0, 3.0]
    core = min(os.sched_getaffinity(0))

    def write(user, nice, system, interrupts):
        counts = f"{user * TICK} {nice * TICK} {system * TICK} 9 9 {interrupts * TICK} 0 7 0 0"
        stat.write_text(f"cpu 1 2 3 4\ncpu{core} {counts}\ncpu999 900000 0 0 0 0 0 0\nctxt 5\n")

    write(100, 5, 10, 2)
    load = OthersLoad(stat, lambda: (clocks[0], clocks[1]))
    clocks[:] = [14.0, 5.0]  # 4 seconds, of which this process worked 2
    write(104, 50, 13, 3)  # work at low priority is polite, and counts for nothing
    assert load.measure() == pytest.approx((4 + 3 + 1 - 2) / 4)
    clocks[:] = [15.0, 6.0]
    write(105, 50, 13, 3)
    assert load.measure() == pytest.approx(0.0)


def test_cores_are_scarce_where_others_need_those_of_these_threads():
    assert not are_scarce(CORES, 0.2)
    assert are_scarce(CORES, 0.3)
    assert not are_scarce(1, CORES - 1.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of its end
def test_a_watcher_lets_threads_sleep_while_others_work_and_spin_after(monkeypatch):
    others: list[float] = [0.0]
    monkeypatch.setattr(waiting_threads, "PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(OthersLoad, "measure", lambda _: others[0] if others else sys.exit())
    watch_cores.__wrapped__(CORES + 1)  # one more than there are
    wait_until(pools)
    others[0] = -2.0  # as if there were more
    wait_until(lambda: not pools())
    others.clear()  # ends the watcher
    wait_until(lambda: "cores" not in {thread.name for thread in threading.enumerate()})


def test_one_thread_waits_for_none():
    watch_cores.__wrapped__(1)
    assert "cores" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.parametrize("text", [None, "cpu0 many\n", "cpu0 1\n"])
def test_what_cannot_be_read_is_not_watched(tmp_path, monkeypatch, text):
    stat = tmp_path / "stat"
    if text is not None:
        stat.write_text(text.replace("cpu0", f"cpu{min(os.sched_getaffinity(0))}"))
    monkeypatch.setattr(waiting_threads, "OthersLoad", lambda: OthersLoad(stat))
    watch_cores.__wrapped__(2)
    assert "cores" not in {thread.name for thread in threading.enumerate()}


def test_each_process_has_one_watcher():
    assert watch_cores(1) is watch_cores(1)
    assert watch_cores.cache_info().hits > 0
