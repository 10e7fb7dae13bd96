"""Runs algebra on many numbers beside the model's thread, which waits for it a moment a tick.

A head of 7 labels that is fitted to 10,000 examples takes seconds, in which predictions go on. One
such work runs at a time, each on a new thread: with a thread go the OpenMP threads that it started,
beside which those of the model's thread would sleep where they now spin (`waiting_threads`). Those
threads have a lower priority: on two cores a forward beside such work took up to ten times as long
where both had the same.
"""

import os
import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future, wait
from typing import TypeVar

T = TypeVar("T")
_TICK_SECONDS = 0.005
_NICE = 10  # a tenth of a core that others want
_turn = threading.Lock()


def beside(compute: Callable[[], T], *, is_large: bool) -> Generator[None, None, T]:
    """Compute on another thread where it is much, else at once; no mode is on there.

    Raises whatever `compute` raises.
    """
    if not is_large:
        return compute()
    done: Future[T] = Future()
    threading.Thread(target=_compute, args=(compute, done), name="algebra").start()
    while not done.done():
        wait([done], _TICK_SECONDS)
        yield None
    return done.result()


def _compute(compute: Callable[[], T], done: "Future[T]") -> None:
    if sys.platform == "linux":  # others have no priorities of threads
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)  # its children inherit it
    with _turn:
        try:
            done.set_result(compute())
        except BaseException as error:  # noqa: BLE001 - the caller's to see, whatever it is
            done.set_exception(error)
