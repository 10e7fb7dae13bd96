"""Runs that several callers follow: equal requests at the same moment run once.

Each caller gets every step, including those before it came. A caller that leaves stops no other
caller; the last one to leave cancels the run. Callers may be on several threads and event loops.
This module knows no model.
"""

import asyncio
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.scheduling.tickets import Ticket

R = TypeVar("R")
Report = Callable[[Any], None]

_POLL_SECONDS = 0.002


@dataclass(frozen=True)
class RunStart(Generic[R]):
    """The start of a run.

    Attributes:
        ticket: of the work on the model thread.
        conclude: makes the result from the work's return value, on a thread of its own.
    """

    ticket: Ticket[Any]
    conclude: Callable[[Any], R]


Begin = Callable[[], RunStart[R] | R]


class SharedRun(Generic[R]):
    """One run with its progress and its result.

    Args:
        begun: the start of the run.
        pool: the threads on which results are made.
    """

    def __init__(self, begun: RunStart[R], pool: ThreadPoolExecutor) -> None:
        self.followers = 0
        self._begun = begun
        self._pool = pool
        self._result: Future[R] | None = None
        self._progress: list[Any] = []
        self._lock = threading.Lock()

    async def follow(self, on_progress: Report) -> R:
        """Report all progress, and return the result, or raise the work's error."""
        shown = 0
        while True:
            result = self._received()
            for progress in self._progress[shown:]:
                shown += 1
                on_progress(progress)
            if result is not None and result.done():
                return result.result()
            await asyncio.sleep(_POLL_SECONDS)

    def cancel(self) -> None:
        """Let the model thread drop the work: no caller follows it any more."""
        self._begun.ticket.left = True

    def _received(self) -> "Future[R] | None":
        """Take the model thread's messages, for all followers."""
        ticket = self._begun.ticket
        with self._lock:
            ended = None if self._result else ticket._received(self._note, 0)
            if ended is not None:
                self._result = self._pool.submit(self._concluded, partial(ticket._open, ended))
            return self._result

    def _concluded(self, opened: Callable[[], Any]) -> R:
        done = opened()  # raises the error of the work in each follower
        if not self.followers:
            raise UnavailableError("no request waits for this run any more.")
        return self._begun.conclude(done)

    def _note(self, progress: object) -> None:
        if progress is not None:
            self._progress.append(progress)


class SharedRuns:
    """The runs in progress, by key."""

    def __init__(self) -> None:
        # weak: a run whose followers are gone ends, even if an exception skipped their leaving
        self._runs: WeakValueDictionary[Hashable, SharedRun[Any]] = WeakValueDictionary()
        # re-entrant: at any allocation a garbage collection may close a follower, which then leaves
        self._lock = threading.RLock()
        self._pool = ThreadPoolExecutor(2, "adapters")

    async def follow(self, key: Hashable, begin: Begin[R], on_progress: Report) -> R:
        """Follow the run of this key; begin it if there is none.

        Args:
            key: of the request; equal keys mean equal work.
            begin: begins a run, or returns the result if an equal run has ended meanwhile.
            on_progress: called on this thread with each step, including earlier ones.
        """
        run = self._join(key, begin)
        if not isinstance(run, SharedRun):
            return run
        try:
            result: R = await run.follow(on_progress)
            return result
        finally:
            self._leave(key, run)

    def __contains__(self, key: Hashable) -> bool:
        """Return whether a run of this key has followers."""
        return key in self._runs

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _join(self, key: Hashable, begin: Begin[R]) -> "SharedRun[R] | R":
        with self._lock:
            run = self._runs.get(key)
            begun = begin() if run is None else None
            if isinstance(begun, RunStart):
                run = self._runs[key] = SharedRun(begun, self._pool)
            if run is None:
                return begun  # type: ignore[return-value] # the result itself
            run.followers += 1
            return run

    def _leave(self, key: Hashable, run: SharedRun[Any]) -> None:
        with self._lock:
            run.followers -= 1
            if not run.followers:
                run.cancel()
                self._runs.pop(key, None)
