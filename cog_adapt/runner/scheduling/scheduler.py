"""Runs all work on the model on one thread, in ticks that alternate between short and long work.

Work is a generator, and each `next` on it is a tick. Between two ticks of long work each waiting
piece of short work gets a tick, so a prediction waits for at most one adaptation step. Owners take
turns by virtual time (`fair_queue`), over short and long work together. Pieces of short work that
have a `SharedWork` may share one tick. Values that a generator yields go to its caller as progress;
its return value is the result.

A caller abandons its work by dropping the ticket: the thread sees that no reference is left. This
module knows no model.
"""

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Generator
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.scheduling.fair_queue import FairQueue, VirtualTime
from cog_adapt.runner.scheduling.job_ticks import (
    Explain,
    abandon,
    advance,
    advance_together,
    unchanged,
    who_may_join,
)
from cog_adapt.runner.scheduling.pause import Pause
from cog_adapt.runner.scheduling.tick_statistics import TickStatistics
from cog_adapt.runner.scheduling.tickets import EndMessage, Job, SharedWork, Ticket
from gradient_check.phases.modes import scrub_thread

T = TypeVar("T")
P = ParamSpec("P")

_ROUND_SECONDS = 0.5  # time for short work, after which one tick of long work runs
_LOOK_SECONDS = 0.02


class Scheduler:
    """Runs submitted work on one thread of its own, tick by tick.

    Args:
        name: of the thread.
        clock: seconds; measures the cost of ticks.

    Attributes:
        explain: turns the error that work raised into the error for its caller.
        pause: of long work.
        ticks: histograms of the ticks so far.
    """

    def __init__(self, name: str = "model", clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.explain: Explain = unchanged
        self._inbox: SimpleQueue[Job | None] = SimpleQueue()
        self._virtual = VirtualTime()
        self._short: FairQueue[Job] = FairQueue(self._virtual)
        self._long: FairQueue[Job] = FairQueue(self._virtual)
        self.pause = Pause(clock)
        self.ticks = TickStatistics()
        self._open = True
        self._tick_began: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.close)  # Python must not end while the thread is inside PyTorch

    def submit_short(
        self, work: Generator[Any, None, T], owner: str = "", part: SharedWork | None = None
    ) -> Ticket[T]:
        """Submit work whose ticks run between those of long work (predictions).

        Args:
            work: a generator.
            owner: pays for its ticks.
            part: the work's `SharedWork`, if one tick can serve several jobs.
        """
        ticket: Ticket[T] = Ticket()
        job = Job(
            work=work,
            outbox=ticket.outbox,
            ticket=weakref.ref(ticket),
            short=True,
            owner=owner,
            part=part,
        )
        return self._submit(ticket, job)

    def submit_long(
        self, work: Generator[Any, None, T], may_take: float = 0.0, owner: str = ""
    ) -> Ticket[T]:
        """Submit work that alternates with other long work, a tick at a time (adaptations).

        Args:
            work: a generator.
            may_take: seconds that one tick may last, if that is known to be long.
            owner: pays for its ticks.
        """
        ticket: Ticket[T] = Ticket()
        return self._submit(
            ticket,
            Job(
                work=work,
                outbox=ticket.outbox,
                ticket=weakref.ref(ticket),
                short=False,
                owner=owner,
                may_take=may_take,
            ),
        )

    def beat(self) -> tuple[float, float]:
        """Return the running tick's age and its own limit, in seconds; 0 between ticks."""
        began = self._tick_began
        return (0.0, 0.0) if began is None else (time.monotonic() - began[0], began[1])

    def close(self) -> None:
        """Drop all work and end the thread; waiting callers get `UnavailableError`."""
        self._open = False
        self._inbox.put(None)
        atexit.unregister(self.close)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __len__(self) -> int:
        """Return the number of unfinished pieces of work."""
        return len(self._short) + len(self._long) + self._inbox.qsize()

    def _submit(self, ticket: Ticket[T], job: Job) -> Ticket[T]:
        if not self._open:
            raise UnavailableError("the model runner is closed; make a new one.")
        self._inbox.put(job)
        if not self._open:  # closed meanwhile: the thread may have read its inbox for the last time
            job.outbox.put(
                EndMessage(error=UnavailableError("the model runner was closed meanwhile."))
            )
        return ticket

    def _loop(self) -> None:
        while self._open:
            self._admit()
            self._run_short_work()
            self._admit()
            if self._long and not self.pause.is_on():
                self._tick(self._long)
            elif self._long and not self._short:
                time.sleep(_LOOK_SECONDS)
        self._drop_everything()

    def _run_short_work(self) -> None:
        """Run a tick for each waiting piece of short work, and one for each that arrives meanwhile.

        Long work waits for at most a round's seconds.
        """
        left, began = len(self._short), self._clock()
        while left > 0 and self._short and self._open:
            left -= self._tick(self._short)
            if self._long and self._clock() - began > _ROUND_SECONDS:
                return
            if self._short or not self._inbox.empty():
                left += self._admit()

    def _admit(self) -> int:
        """Move jobs from the inbox to their queues, and count short ones; block only when idle."""
        came, idle = 0, not self._short and not self._long
        while self._open and (idle or not self._inbox.empty()):
            job = self._inbox.get()
            if job is not None:
                self._queue_of(job).append(job.owner, job)
                came += job.short
            idle = False
        return came

    def _queue_of(self, job: Job) -> FairQueue[Job]:
        return self._short if job.short else self._long

    def _tick(self, queue: FairQueue[Job]) -> int:
        """Run one tick; return the number of pieces of work that had a share in it."""
        job = queue.pop()
        self._tick_began, began = (time.monotonic(), job.may_take), self._clock()
        scrub_thread()
        _abandon_left(self._short)
        others = who_may_join(job, self._short) if self._short else []
        shares = self._run_together(job, others) if others else self._advance(job)
        seconds = self._clock() - began
        self.ticks.note(seconds, len(shares), is_short=job.short)
        for owner, share in shares:
            self._virtual.charge(owner, share * seconds)
        self._tick_began = None  # not in a `finally`: a thread that dies here has to look hung
        return len(shares)

    def _advance(self, job: Job) -> list[tuple[str, float]]:
        """Run one tick of one job alone; charge its owner."""
        if advance(job, self.explain):
            self._queue_of(job).append(job.owner, job)
        return [(job.owner, 1.0)]

    def _run_together(self, job: Job, others: list[Job]) -> list[tuple[str, float]]:
        """Run one tick for a job and for those of the others that fit; charge their owners."""
        shares = advance_together(job, others, self.explain)
        if not shares:
            return [(job.owner, 1.0)]
        self._short.append(job.owner, job)
        for one in [one for one, _ in shares if one.part is not None and one.part.done]:
            self._short.remove(one.owner, one)
            self._advance(one)
        return [(one.owner, share) for one, share in shares]

    def _drop_everything(self) -> None:
        while not self._inbox.empty():
            if (job := self._inbox.get()) is not None:
                self._long.append(job.owner, job)
        for job in (*self._short, *self._long):
            abandon(job)
            job.outbox.put(
                EndMessage(error=UnavailableError("the model runner was closed meanwhile."))
            )
        self._short.clear()
        self._long.clear()


def _abandon_left(queue: FairQueue[Job]) -> None:
    """Close dropped work that shares ticks at once: its memory makes room for others."""
    for job in [job for job in queue if job.part is not None and job.dropped] if queue else []:
        queue.remove(job.owner, job)
        abandon(job)


def once(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Generator[None, None, T]:
    """Call `function` as work of one tick."""
    return function(*args, **kwargs)
    yield
