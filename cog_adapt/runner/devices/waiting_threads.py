"""Lets torch's waiting threads spin while cores are free, and sleep while others need them.

A step has hundreds of parallel parts, and waking a thread takes longer than many of these parts: on
two free cores, a step with sleeping threads takes 1.5 times as long. Beside another busy process, a
step with spinning threads takes four times as long (`bench/neighbours.py`).

GNU's OpenMP spins for `GOMP_SPINCOUNT` turns (`cog_adapt.runner`), but for only a hundred in a
process with more OpenMP threads than cores (libgomp's `config/linux/wait.h`). To have more threads
than cores, this module starts idle threads with an OpenMP pool of their own. Other implementations
of OpenMP ignore these threads. A step's sums are the same with and without the idle threads.
"""

import functools
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import torch

_STAT = Path("/proc/stat")
PAUSE_SECONDS = 0.5  # between two readings
_SLACK = 0.25  # other processes' load, in cores, from which threads sleep: the front needs some
_PARALLEL = 1 << 18  # from so many entries, torch adds with all threads
# columns of /proc/stat; low-priority work is left out, since it waits
_USER, _SYSTEM, _INTERRUPTS = 1, 3, slice(6, 8)
_UNREADABLE = (OSError, ValueError, IndexError)
Clocks = Callable[[], tuple[float, float]]


class WaitingThreads:
    """Holds pools while cores are scarce."""

    def __init__(self, threads: int) -> None:
        self._count = -(-len(os.sched_getaffinity(0)) // (threads - 1))
        self._end: threading.Event | None = None
        self._holders: list[threading.Thread] = []

    @property
    def sleep(self) -> bool:
        """Whether waiting threads sleep."""
        return self._end is not None

    def let(self, *, sleep: bool) -> None:
        """Let waiting threads sleep, or spin."""
        if sleep == self.sleep:
            return
        if self._end is not None:
            self._end.set()
            for holder in self._holders:
                holder.join()
            self._end = None
            return
        self._end = threading.Event()
        self._holders = [
            threading.Thread(target=_hold, args=(self._end,), name="pool", daemon=True)
            for _ in range(self._count)
        ]
        for holder in self._holders:
            holder.start()


def _hold(end: threading.Event) -> None:
    torch.zeros(_PARALLEL).add_(1)
    end.wait()


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.process_time()


class OthersLoad:
    """Measures the number of this process's cores that other processes keep busy.

    Args:
        stat: the kernel's counts of each core's work.
        clocks: seconds, and this process's CPU seconds.
    """

    def __init__(self, stat: Path = _STAT, clocks: Clocks = _clocks) -> None:
        self._stat = stat
        self._clocks = clocks
        self._last = self._read()

    def measure(self) -> float:
        """Return the cores that others kept busy since the last call."""
        (began, busy, own), self._last = self._last, self._read()
        now, busy_now, own_now = self._last
        return ((busy_now - busy) - (own_now - own)) / max(now - began, 1e-6)

    def _read(self) -> tuple[float, float, float]:
        """Return seconds: of the clock, of all work on these cores, and of this process."""
        names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        ticks = 0
        for line in self._stat.read_text("ascii").splitlines():
            name, *counts = line.split()
            if name in names:
                columns = [0, *map(int, counts)]
                ticks += columns[_USER] + columns[_SYSTEM] + sum(columns[_INTERRUPTS])
        now, own = self._clocks()
        return now, ticks / os.sysconf("SC_CLK_TCK"), own


@functools.cache  # once a process, for any number of runners
def watch_cores(threads: int) -> None:
    """Let torch's waiting threads sleep or spin from now on, by the load of other processes.

    Args:
        threads: the number of torch's threads; a single thread never waits.
    """
    if threads < 2:
        return
    try:
        waiting, load = WaitingThreads(threads), OthersLoad()
    except _UNREADABLE:  # not Linux, or a sandbox: threads spin for their moment
        return

    def watch() -> None:
        while True:
            time.sleep(PAUSE_SECONDS)
            # for instance too many open files: the next reading may succeed
            with suppress(*_UNREADABLE):
                waiting.let(sleep=are_scarce(threads, load.measure()))

    threading.Thread(target=watch, name="cores", daemon=True).start()


def are_scarce(threads: int, others: float) -> bool:
    """Return whether these threads and the load of others need more cores than there are."""
    return threads + others > len(os.sched_getaffinity(0)) + _SLACK
