"""Ends a synchronous run() early, by an exception put into its thread.

The exception reaches the thread only inside `Interruption.call`, so inside the user's code. It is
set at most once, and is raised by the next call at the latest: leaving twice is enough to be sure
that none is pending. (CPython 3.11 could revoke it by PyThreadState_SetAsyncExc with NULL, but then
looks for an exception at every call for ever, under a tracer endlessly.)
"""

import ctypes
import threading
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from cog import CancelationException

P = ParamSpec("P")
T = TypeVar("T")

_set_exception = ctypes.pythonapi.PyThreadState_SetAsyncExc
_set_exception.argtypes = (ctypes.c_ulong, ctypes.py_object)
_EXCEPTION = ctypes.py_object(CancelationException)


class Interruption:
    """The request to end one prediction, and the stretch of code that it may interrupt.

    The thread that runs the stretch takes no lock, which the exception could leave locked.

    Attributes:
        requested: whether the prediction must end.
    """

    def __init__(self) -> None:
        self.requested = False
        self._requests = threading.Lock()
        self._thread: int | None = None
        self._is_putting = self._was_put = False

    def request(self) -> None:
        """Request the end; from any other thread, any number of times."""
        with self._requests:
            self.requested = True
            self._is_putting = True  # set before the thread is read, because `_leave` waits for it
            thread = self._thread
            if thread is not None and not self._was_put:
                self._was_put = True
                _set_exception(thread, _EXCEPTION)
            self._is_putting = False

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the user's code on this thread.

        Raises:
            CancelationException: the end was requested before the function ran, or meanwhile.
        """
        try:
            try:
                self._enter()
                return function(*args, **kwargs)
            finally:
                self._leave()
        finally:
            self._leave()  # the exception may have interrupted the first `_leave`

    def _enter(self) -> None:
        self._thread = threading.get_ident()
        # after the thread is set, so that either a request sees it or this line sees the request
        if self.requested:
            raise CancelationException

    def _leave(self) -> None:
        self._thread = None
        while self._is_putting:
            time.sleep(0)
