"""Runs that several callers follow: equal requests at the same moment run once.

Each caller gets every step, including those before it came. A caller that leaves stops no other
caller; the last one to leave cancels the run. Callers may be on several threads and event loops.
This module knows no model.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.scheduling.claims import Turn
from cog_adapt.runner.scheduling.tickets import Ticket

R = TypeVar("R")
Report = Callable[[Any], None]

_POLL_SECONDS = 0.002
_NOT_YET_SECONDS = 0.1


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
        begun: the start of the run; None: it waits for its turn.
        pool: the threads on which results are made.
        waiting: the wait for the turn, and how the run begins then.
    """

    def __init__(
        self,
        begun: RunStart[R] | None,
        pool: ThreadPoolExecutor,
        waiting: "WaitingRun[R] | None" = None,
    ) -> None:
        self.followers = 0
        self._begun = begun
        self._pool = pool
        self._waiting = waiting
        self._result: Future[R] | None = None
        self._progress: list[Any] = []
        self._lock = threading.Lock()

    async def follow(self, on_progress: Report) -> R:
        """Report all progress, and return the result, or raise the work's error."""
        shown = 0
        while True:
            result = self._received()
            news = self._progress[shown:]
            shown += len(news)
            for progress in [each for each in news if each is not None]:
                on_progress(progress)
            if result is not None and result.done():
                return result.result()
            await asyncio.sleep(_POLL_SECONDS)

    def cancel(self) -> None:
        """Let the model thread drop the work: no caller follows it any more."""
        if self._begun is not None:
            self._begun.ticket.left = True
        self._give_up_turn()

    def _received(self) -> "Future[R] | None":
        """Take the model thread's messages, for all followers."""
        with self._lock:
            if self._begun is None and self._result is None:
                self._begin_in_turn()
            if self._begun is None or self._result:
                return self._result
            ended = self._begun.ticket._received(self._note, 0)
            if ended is not None:
                opened = partial(self._begun.ticket._open, ended)
                self._result = self._pool.submit(self._concluded, self._begun, opened)
            return self._result

    def _begin_in_turn(self) -> None:
        waiting = self._waiting
        if waiting is None:
            return
        self._note(waiting.read_notice())
        begun = waiting.begun_by(self._pool)
        if begun is None:
            return
        if begun.exception() is None and isinstance(begun.result(), RunStart):
            self._begun = begun.result()  # type: ignore[assignment] # narrowed above
        else:
            self._result = begun  # type: ignore[assignment] # the result itself, or an error
            self._give_up_turn()

    def _give_up_turn(self) -> None:
        if self._waiting is not None:
            self._waiting.claim.release()

    def _concluded(self, begun: RunStart[R], opened: Callable[[], Any]) -> R:
        try:
            done = opened()  # raises the error of the work in each follower
            if not self.followers:
                raise UnavailableError("no request waits for this run any more.")
            return begun.conclude(done)
        finally:
            self._give_up_turn()

    def _note(self, progress: object) -> None:
        if progress is None:
            return
        if getattr(progress, "newest_only", False):  # it is large: a follower misses older ones
            kind = type(progress)
            self._progress = [None if type(each) is kind else each for each in self._progress]
        self._progress.append(progress)


class WaitingRun(Generic[R]):
    """A run that waits for its turn among other processes.

    Args:
        turn: how it waits, and how it begins then.

    Attributes:
        claim: of this process to the run.
    """

    def __init__(self, turn: Turn[RunStart[R] | R]) -> None:
        self.claim = turn.ask()
        self._turn = turn
        self._asked_at = time.monotonic()
        self._has_shown = False
        self._again_at = 0.0
        self._beginning: Future[RunStart[R] | R | None] | None = None

    def read_notice(self) -> Any:  # noqa: ANN401 - progress may be anything
        """Return once that another process is at it; else None."""
        if self._has_shown or not self.claim.is_waiting:
            return None
        self._has_shown = True
        return self._turn.notice

    def begun_by(self, pool: ThreadPoolExecutor) -> "Future[RunStart[R] | R | None] | None":
        """Return what began, or its error; None before the turn has come and it has begun."""
        now = time.monotonic()
        waited = now - self._asked_at
        is_impatient = self._turn.patience is not None and waited >= self._turn.patience
        is_due = self.claim.is_held or is_impatient
        if self._beginning is None and is_due and now >= self._again_at:
            self._beginning = pool.submit(self._turn.begin, waited if self._has_shown else 0.0)
        if self._beginning is None or not self._beginning.done():
            return None
        if self._beginning.exception() is None and self._beginning.result() is None:
            self._beginning = None
            self._again_at = now + _NOT_YET_SECONDS
        return self._beginning


class SharedRuns:
    """The runs in progress, by key."""

    def __init__(self) -> None:
        # weak: a run whose followers are gone ends, even if an exception skipped their leaving
        self._runs: WeakValueDictionary[Hashable, SharedRun[Any]] = WeakValueDictionary()
        # re-entrant: at any allocation a garbage collection may close a follower, which then leaves
        self._lock = threading.RLock()
        self._pool = ThreadPoolExecutor(2, "adapters")

    async def follow(
        self, key: Hashable, begin: Begin[R] | Turn[RunStart[R] | R], on_progress: Report
    ) -> R:
        """Follow the run of this key; begin it if there is none.

        Args:
            key: of the request; equal keys mean equal work.
            begin: begins a run, or returns the result if an equal run has ended meanwhile; at once,
                or in its turn among other processes.
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

    def _join(self, key: Hashable, begin: Begin[R] | Turn[RunStart[R] | R]) -> "SharedRun[R] | R":
        with self._lock:
            run = self._runs.get(key)
            if run is None and isinstance(begin, Turn):
                run = self._runs[key] = SharedRun(None, self._pool, WaitingRun(begin))
            begun = begin() if run is None and not isinstance(begin, Turn) else None
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
