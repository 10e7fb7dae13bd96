"""Lets the model thread run more often while other threads read and decode what callers sent.

Parsing and decoding in Python need the interpreter, and so does the model thread after each
operation. Without this it waits for a switch interval each time.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_SWITCH_SECONDS = 0.0005  # Python's own interval is ten times as long


class _Interval:
    """The process's switch interval: short while at least one thread gives way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._usual = sys.getswitchinterval()

    def shorten(self) -> None:
        with self._lock:
            self._threads += 1
            if self._threads == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(self._usual, _SWITCH_SECONDS))

    def restore(self) -> None:
        with self._lock:
            self._threads -= 1
            if not self._threads:
                sys.setswitchinterval(self._usual)


_interval = _Interval()


@contextmanager
def giving_way() -> Iterator[None]:
    """Shorten the switch interval of the process inside the block."""
    _interval.shorten()
    try:
        yield
    finally:
        _interval.restore()
