"""Runs linear algebra beside the model thread, which waits for it a moment a tick.

A head of 7 labels that is fitted to 10,000 examples takes seconds, in which predictions continue;
one of 2 labels and 100 examples takes 0.1 to 0.2 s. One small and one large computation run at a
time, so that small ones do not wait for large ones, each on a new thread: a thread's end also ends
the OpenMP threads that it started, beside which those of the model thread would sleep instead of
spin (`waiting_threads`). The new threads have a lower priority: on two cores a forward beside such
work took up to ten times as long at equal priority.
"""

import os
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")
_TICK_SECONDS = 0.005
_NICE = 10  # gives this thread a tenth of a core that other work wants
_AT_ONCE, _SMALL = 64, 1_000  # entries: a fit of 64 takes up to 0.08 s, one of 1,000 up to 0.5 s
_small_turn, _large_turn = threading.Lock(), threading.Lock()


def beside(compute: Callable[[], T], *, entries: int) -> Generator[None, None, T]:
    """Compute on another thread if the work is not tiny, else at once; no mode is on there.

    Raises whatever `compute` raises.

    Args:
        compute: the work.
        entries: its size: examples times labels.
    """
    if entries <= _AT_ONCE:
        return compute()
    done: Future[T] = Future()
    turn = _small_turn if entries <= _SMALL else _large_turn
    threading.Thread(target=_compute, args=(compute, done, turn), name="algebra").start()
    while not done.done():
        wait([done], _TICK_SECONDS)
        yield None
    return done.result()


def _compute(compute: Callable[[], T], done: "Future[T]", turn: threading.Lock) -> None:
    if sys.platform == "linux":  # other systems have no thread priorities
        # child threads inherit the priority
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
    with turn:
        try:
            done.set_result(compute())
        except BaseException as error:  # noqa: BLE001 - the caller's to see, whatever it is
            done.set_exception(error)
