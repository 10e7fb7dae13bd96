"""Admits work by the memory that it needs, and by count; waiting owners take turns.

An adaptation, or a growing answer, states its needs by a `MemoryDemand` before it takes any memory.
Work that fits beside the running work starts at once. Work that does not fit waits outside the
scheduler, where it costs no tick, until enough has ended. Work that could not fit alone is refused.
The owner whose work has had the fewest bytes is next (`fair_queue`). Small work does not overtake
large work whose turn it is, so both get theirs; but work never waits behind an owner that has
already used its share. All but `submit` belongs to the model thread: there is no lock. This module
knows no model.
"""

import logging
import weakref
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from queue import SimpleQueue
from types import MappingProxyType
from typing import Any, Final, TypeVar

from cog_adapt.runner.adaptation.memory_estimate import Waiting
from cog_adapt.runner.devices.memory import in_words
from cog_adapt.runner.errors import InputError, UnavailableError
from cog_adapt.runner.scheduling.elsewhere import Elsewhere
from cog_adapt.runner.scheduling.fair_queue import FairQueue, VirtualTime
from cog_adapt.runner.scheduling.held_memory import HeldMemory
from cog_adapt.runner.scheduling.memory_demand import MemoryDemand
from cog_adapt.runner.scheduling.scheduler import Scheduler
from cog_adapt.runner.scheduling.tickets import EndMessage, Job, SharedWork, Ticket

T = TypeVar("T")
_PARKED: Final = object()
logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Run:
    """A piece of work, from its submission to its end.

    Attributes:
        needed: its demand; None before it is stated.
        elsewhere: the other thread's work that it waits for, or None.
    """

    work: Generator[Any, None, Any]
    outbox: SimpleQueue[Any]
    ticket: weakref.ref[Ticket[Any]]
    owner: str
    part: SharedWork | None = None
    needed: MemoryDemand | None = None
    elsewhere: Ticket[None] | None = None

    @property
    def bytes(self) -> int:
        return self.needed.bytes if self.needed else 0

    @property
    def dropped(self) -> bool:
        ticket = self.ticket()
        return ticket is None or ticket.left


class _Turns(FairQueue[_Run]):
    """The waiting runs; owners pay in bytes, and a dropped run costs nothing."""

    def take(self, run: _Run) -> None:
        """Remove a run that continues."""
        time, start, owners = self._time, self._starts(run.owner), len(self._rows)
        self.remove(run.owner, run)
        time.charge(run.owner, start - max(time.now, time.paid(run.owner)) + run.bytes)
        # It stays below the run's start, or ever new owners would hold up an owner who has paid
        # before.
        time.now = max(start, time.now + run.bytes / (owners + 1))

    def __len__(self) -> int:
        return sum(len(row.items) for row in [*self._rows.values()])  # any thread may call this


class _Outbox:
    """The caller's outbox, but for the message that a run leaves the scheduler to wait."""

    def __init__(self, outbox: SimpleQueue[Any]) -> None:
        self._outbox = outbox

    def put(self, message: object) -> None:
        if not (isinstance(message, EndMessage) and message.result is _PARKED):
            self._outbox.put(message)


class Admission:
    """Submits work of one kind, and lets it continue when it fits.

    Args:
        scheduler: of the model thread.
        held: the memory of running work, and its limits.
        others: do the work that work here waits for (`Elsewhere`), by name; work for any other
            name is done here.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        held: HeldMemory[_Run],
        others: Mapping[str, Scheduler] = MappingProxyType({}),
    ) -> None:
        self._scheduler = scheduler
        self._held = held
        self._others = others
        self._waiting = _Turns(VirtualTime())
        self._letting_in = False

    def submit(
        self, work: Generator[Any, None, T], owner: str = "", part: SharedWork | None = None
    ) -> Ticket[T]:
        """Submit work as `Scheduler.submit_long` does; with a part, as `submit_short`.

        If the work has to wait, its caller's progress has a `Waiting`; if it could never fit, the
        caller's error is an InputError.
        """
        ticket: Ticket[T] = Ticket()
        self._schedule(
            _Run(
                work=work, outbox=ticket.outbox, ticket=weakref.ref(ticket), owner=owner, part=part
            ),
            ticket,
        )
        return ticket

    def gauges(
        self, bytes_name: str = "adaptation_bytes", waiting_name: str = "adaptations_waiting"
    ) -> dict[str, float]:
        """Return numbers for a server's metrics, under these names."""
        return {bytes_name: float(self._held.bytes), waiting_name: float(len(self._waiting))}

    def _schedule(self, run: _Run, ticket: Ticket[Any] | None) -> None:
        ticks = self._ticks(run)
        if run.needed is not None:
            next(ticks)  # started, so that closing it before its first tick frees its memory too
        outbox: Any = _Outbox(run.outbox)
        job = Job(
            work=ticks,
            outbox=outbox,
            ticket=run.ticket,
            short=run.part is not None,
            owner=run.owner,
            part=run.part,
        )
        self._scheduler._submit(ticket or Ticket(), job)

    def _ticks(self, run: _Run) -> Generator[Any, None, Any]:
        """Continue a run until it ends or has to wait."""
        progress: Any = None
        try:
            while not isinstance(progress, EndMessage):
                yield progress
                progress = self._advance(run)
            return progress.result
        finally:
            if not (isinstance(progress, EndMessage) and progress.result is _PARKED):
                self._leave(run)

    def _advance(self, run: _Run) -> Any:  # noqa: ANN401 - progress may be anything
        if self._waiting:
            self._forget_dropped()
        try:
            progress = next(run.work)
        except StopIteration as stop:
            return EndMessage(result=stop.value)
        if isinstance(progress, Elsewhere):
            return self._leave_for(run, progress) if progress.thread in self._others else None
        if not isinstance(progress, MemoryDemand):
            return progress
        run.needed = progress
        return self._take(run, progress)

    def _leave_for(self, run: _Run, work: Elsewhere[Any]) -> EndMessage:
        """Take a run out of the scheduler until another thread has done its `Elsewhere`."""
        ticks = self._ticks_elsewhere(run, work)
        next(ticks)  # started, so that it lets the run continue even if it is closed at once
        run.elsewhere = self._others[work.thread].submit_short(ticks, run.owner)
        return EndMessage(result=_PARKED)

    def _ticks_elsewhere(self, run: _Run, work: Elsewhere[Any]) -> Generator[None, None, None]:
        """Work on the other thread while the run has a caller; then the run continues."""
        try:
            yield None
            yield from takewhile(lambda _: not run.dropped, work.going_on())
        finally:
            self._come_back(run)

    def _come_back(self, run: _Run) -> None:
        try:
            self._schedule(run, run.ticket())
        except UnavailableError as error:
            _end(run, error)

    def _take(self, run: _Run, needed: MemoryDemand) -> EndMessage | None:
        """Give a run its memory, or make it wait."""
        self._held.ask_limit()
        if run.bytes > self._held.most_of(run.owner):
            raise _refusal(run, self._held.most_of(run.owner))
        self._waiting.append(run.owner, run)
        if self._next_to_leave() is run:
            self._waiting.take(run)
            self._held.add(run)
            return None
        words = f"waits for {self._held.words_of_wait(run, needed)}"
        logger.info("an %s %s", needed.work, words)
        run.outbox.put(Waiting(words))
        return EndMessage(result=_PARKED)

    def _leave(self, run: _Run) -> None:
        """End a run; waiting runs may fit now."""
        try:
            run.work.close()
        finally:
            self._held.free(run)
            self._let_in()

    def _let_in(self) -> None:
        """Continue waiting runs, in turn, as far as they fit."""
        if self._letting_in:  # a run that cannot continue leaves by a call from below
            return
        self._letting_in = True
        try:
            self._forget_dropped()
            self._held.ask_limit()
            while (run := self._next_to_leave()) is not None:
                self._go_on(run)
            if not (self._held or self._waiting):  # then all payments are forgotten
                self._waiting = _Turns(VirtualTime())
        finally:
            self._letting_in = False

    def _next_to_leave(self) -> _Run | None:
        """Return the first run that fits its owner's share and the total."""
        run = next((run for run in self._waiting if not self._held.is_share_over(run)), None)
        return run if run is not None and (not self._held or self._held.fits(run)) else None

    def _go_on(self, run: _Run) -> None:
        """Continue a run; end it if the machine has less memory than before."""
        if not self._held.fits(run):
            self._waiting.remove(run.owner, run)
            _end(run, _refusal(run, self._held.most_of(run.owner)))
            return
        self._waiting.take(run)
        self._held.add(run)
        try:
            self._schedule(run, run.ticket())
        except UnavailableError as error:
            self._held.free(run)
            _end(run, error)

    def _forget_dropped(self) -> None:
        """End waiting runs whose callers have gone, and free their memory at once."""
        for run in [run for run in self._waiting if run.dropped]:
            self._waiting.remove(run.owner, run)
            run.work.close()


def _end(run: _Run, error: Exception) -> None:
    run.outbox.put(EndMessage(error=error))
    run.work.close()


def _refusal(run: _Run, most: int) -> InputError:
    needed = run.needed
    assert needed is not None
    return InputError(
        f"this {needed.work} would need about {needed}; at most {in_words(most)} are free for "
        f"{needed.work}s ({needed.setting}). {needed.remedy}"
    )
