"""Runs all work on the model on one thread, in ticks that alternate between short and long work.

Work is a generator, and each `next` on it is a tick. Between two ticks of long work every waiting
piece of short work gets one tick, so a prediction waits for at most one adaptation step. The
values that a generator yields go to its caller as progress; its return value is the result.

The caller's side must survive an exception at any bytecode (Cog's cancellation). So it holds no
Python lock, only queues whose operations are single C calls. To abandon work, the caller just
drops its ticket: the thread sees that no reference is left. This module knows no model.
"""

import asyncio
import atexit
import logging
import threading
import time
import traceback
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.modes import scrub_thread

T = TypeVar("T")
P = ParamSpec("P")
Progress = Callable[[Any], None]

_POLL_SECONDS = 0.01  # short, because Cog's cancellation cannot interrupt a blocking wait
_ASYNC_POLL_SECONDS = 0.002
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Ended:
    """The last message of a piece of work."""

    result: Any = None
    error: BaseException | None = None


class Ticket(Generic[T]):
    """The caller's end of submitted work. Dropping the ticket cancels the work.

    An exception out of a wait also cancels it: that exception, if kept, would keep its frames and
    with them the ticket.
    """

    def __init__(self) -> None:
        self._outbox: SimpleQueue[Any] = SimpleQueue()
        self.left = False

    def wait(self, on_progress: Progress | None = None) -> T:
        """Wait for the result, or for what the work raises; report progress on this thread."""
        try:
            while (ended := self._received(on_progress, _POLL_SECONDS)) is None:
                continue
            return self._open(ended)
        finally:
            self.left = True

    async def wait_async(self, on_progress: Progress | None = None) -> T:
        """Wait as `wait` does, from an event loop; progress is reported on the loop's thread."""
        try:
            while (ended := self._received(on_progress, 0)) is None:
                await asyncio.sleep(_ASYNC_POLL_SECONDS)
            return self._open(ended)
        finally:
            self.left = True

    async def stream_async(self) -> AsyncGenerator[Any, None]:
        """Yield progress as it comes, up to the end of the work; to stop reading cancels it."""
        try:
            while not isinstance(message := await self._next_async(), _Ended):
                yield message
            self._open(message)
        finally:
            self.left = True

    async def _next_async(self) -> Any:  # noqa: ANN401 - progress may be anything
        while self._outbox.empty():
            await asyncio.sleep(_ASYNC_POLL_SECONDS)
        return self._outbox.get()

    def _received(self, on_progress: Progress | None, seconds: float) -> _Ended | None:
        """Report progress until none comes for `seconds`; return the last message if it came."""
        while True:
            try:
                message = self._outbox.get(timeout=seconds)
            except Empty:
                return None
            if isinstance(message, _Ended):
                return message
            if on_progress is not None:
                on_progress(message)

    def _open(self, ended: _Ended) -> T:
        if ended.error is not None:
            raise ended.error
        return ended.result  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Job:
    """The thread's end of the work: holds the outbox, but only a weak reference to the ticket."""

    work: Generator[Any, None, Any]
    outbox: SimpleQueue[Any]
    ticket: weakref.ref[Ticket[Any]]
    short: bool
    may_take: float

    @property
    def dropped(self) -> bool:
        """Whether the caller has dropped or left the ticket."""
        ticket = self.ticket()
        return ticket is None or ticket.left


class Scheduler:
    """Runs submitted work on one thread of its own, tick by tick."""

    def __init__(self, name: str = "model") -> None:
        self._inbox: SimpleQueue[_Job | None] = SimpleQueue()
        self._short: deque[_Job] = deque()
        self._long: deque[_Job] = deque()
        self._open = True
        self._tick_began: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.close)  # Python must not end while the thread is inside PyTorch

    def submit_short(self, work: Generator[Any, None, T]) -> Ticket[T]:
        """Submit work whose ticks run between those of long work (predictions)."""
        return self._submit(work, short=True)

    def submit_long(self, work: Generator[Any, None, T], may_take: float = 0.0) -> Ticket[T]:
        """Submit work that alternates with other long work, a tick at a time (adaptations).

        Args:
            work: a generator.
            may_take: seconds that one of its ticks may last, where that is known to be long.
        """
        return self._submit(work, short=False, may_take=may_take)

    def beat(self) -> tuple[float, float]:
        """Return for how many seconds the running tick has lasted, and may; 0 between ticks."""
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

    def _submit(
        self, work: Generator[Any, None, T], *, short: bool, may_take: float = 0.0
    ) -> Ticket[T]:
        ticket: Ticket[T] = Ticket()
        job = _Job(work, ticket._outbox, weakref.ref(ticket), short, may_take)
        if not self._open:
            raise UnavailableError("the model runner is closed; make a new one.")
        self._inbox.put(job)
        if not self._open:  # closed in between: the thread may have looked for the last time
            job.outbox.put(_Ended(error=UnavailableError("the model runner was closed meanwhile.")))
        return ticket

    def _loop(self) -> None:
        while self._open:
            self._admit()
            for _ in range(len(self._short)):
                self._tick(self._short)
            self._admit()
            if self._long:
                self._tick(self._long)
        self._drop_everything()

    def _admit(self) -> None:
        """Move waiting jobs from the inbox to their rows; block only if there is no other work."""
        idle = not self._short and not self._long
        while self._open and (idle or not self._inbox.empty()):
            job = self._inbox.get()
            if job is not None:
                (self._short if job.short else self._long).append(job)
            idle = False

    def _tick(self, row: "deque[_Job]") -> None:
        job = row.popleft()
        self._tick_began = (time.monotonic(), job.may_take)
        self._advance(job, row)
        self._tick_began = None  # in no `finally`: a thread that dies here has to look hung

    def _advance(self, job: _Job, row: "deque[_Job]") -> None:
        scrub_thread()
        if job.dropped:
            self._abandon(job)
            return
        try:
            job.outbox.put(next(job.work))
        except StopIteration as stop:
            job.outbox.put(_Ended(result=stop.value))
        except BaseException as error:  # noqa: BLE001 - the caller's to see, whatever it is
            _clear_frames(error)
            job.outbox.put(_Ended(error=error))
        else:
            row.append(job)

    def _abandon(self, job: _Job) -> None:
        """Close work without a caller; log what its clean-up raises, since nobody waits for it."""
        try:
            job.work.close()
        except BaseException:  # the thread must outlive any model's clean-up
            logger.exception("abandoned work failed while it was closed")

    def _drop_everything(self) -> None:
        while not self._inbox.empty():
            job = self._inbox.get()
            if job is not None:
                self._long.append(job)
        for job in (*self._short, *self._long):
            self._abandon(job)
            job.outbox.put(_Ended(error=UnavailableError("the model runner was closed meanwhile.")))
        self._short.clear()
        self._long.clear()


def _clear_frames(error: BaseException) -> None:
    """Clear the frames of an error and of its causes, whose locals would keep activations alive."""
    seen: set[int] = set()  # an error may be its own cause
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


def once(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Generator[None, None, T]:
    """Call `function` as work of one tick."""
    return function(*args, **kwargs)
    yield
