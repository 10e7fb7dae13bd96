"""Handles Ctrl-C: the first cancels the run and waits for its end; the second exits immediately."""

import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

_PAUSE = 0.1  # s between attempts to cancel a run that the server does not know yet


class Interrupted:
    """Records whether Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.once = False


@contextlib.contextmanager
def canceling(cancel: Callable[[], bool], say: Callable[[str], None]) -> Iterator[Interrupted]:
    """Cancel on the first Ctrl-C while the body continues; the second raises KeyboardInterrupt.

    Args:
        cancel: asks the server; returns False if the run is not known there yet.
        say: shows a message to the user.
    """
    state, ended = Interrupted(), threading.Event()
    # The handler runs between any two bytecodes, even while a lock is held. So it does only what is
    # safe then, and a thread does the rest.
    pressed: queue.SimpleQueue[bool] = queue.SimpleQueue()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        state.once = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        pressed.put(True)

    def wait() -> None:
        if pressed.get():
            say("canceling; Ctrl-C again leaves at once")
            while not (ended.is_set() or cancel()):
                ended.wait(_PAUSE)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield state
    finally:
        signal.signal(signal.SIGINT, before)
        ended.set()
        pressed.put(False)


@contextlib.contextmanager
def ending_on_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, so that a started server is stopped."""

    def leave(number: int, _frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    # A shell without job control starts background jobs with SIGINT ignored.
    before[signal.SIGINT] = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
