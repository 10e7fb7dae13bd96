"""One thread that owns the model, and the order in which it works.

Work is a generator; each `next` on it is a tick. Between two ticks of long work every piece of
short work that waits gets one tick, so a prediction waits for at most one adaptation step. What a
generator yields goes to its caller as progress; what it returns is its result.

The caller's side must survive an exception raised at any bytecode (Cog's cancellation). So it
holds no Python lock, only queues whose operations are single C calls, and work is abandoned by
nothing more than letting go of its ticket: the thread sees that nobody holds it any more.
This module knows no model.
"""

import asyncio
import atexit
import logging
import threading
import traceback
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, ParamSpec, TypeVar

from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.modes import scrub_thread

T = TypeVar("T")
P = ParamSpec("P")
Progress = Callable[[Any], None]

_POLL_SECONDS = 0.01  # a blocked wait would keep Cog's cancellation out until it ends by itself
_ASYNC_POLL_SECONDS = 0.002


logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Ended:
    """The last message of a piece of work."""

    result: Any = None
    error: BaseException | None = None


class Ticket(Generic[T]):
    """The caller's end of submitted work. Letting go of it cancels the work.

    So does an exception out of a wait: whoever keeps that exception keeps its frames, and with
    them the ticket.
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
        """As `wait`, from an event loop; progress is reported on the loop's thread."""
        try:
            while (ended := self._received(on_progress, 0)) is None:
                await asyncio.sleep(_ASYNC_POLL_SECONDS)
            return self._open(ended)
        finally:
            self.left = True

    def stream(self) -> Iterator[Any]:
        """Yield progress as it comes, up to the end of the work; to stop reading cancels it."""
        try:
            while not isinstance(message := self._next(), _Ended):
                yield message
            self._open(message)
        finally:
            self.left = True

    async def stream_async(self) -> AsyncGenerator[Any, None]:
        """As `stream`, from an event loop."""
        try:
            while not isinstance(message := await self._next_async(), _Ended):
                yield message
            self._open(message)
        finally:
            self.left = True

    def _next(self) -> Any:  # noqa: ANN401 - progress may be anything
        while True:
            with suppress(Empty):
                return self._outbox.get(timeout=_POLL_SECONDS)

    async def _next_async(self) -> Any:  # noqa: ANN401 - progress may be anything
        while self._outbox.empty():
            await asyncio.sleep(_ASYNC_POLL_SECONDS)
        return self._outbox.get()

    def _received(self, on_progress: Progress | None, seconds: float) -> _Ended | None:
        """Report progress until none comes for `seconds`; the last message, once it is there."""
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
    """The thread's end: it keeps the outbox, but only a weak hold of the ticket."""

    work: Generator[Any, None, Any]
    outbox: SimpleQueue[Any]
    ticket: weakref.ref[Ticket[Any]]
    short: bool

    @property
    def dropped(self) -> bool:
        """Whether nobody waits for it any more."""
        ticket = self.ticket()
        return ticket is None or ticket.left


class Scheduler:
    """Runs submitted work on one thread of its own, tick by tick."""

    def __init__(self, name: str = "model") -> None:
        self._inbox: SimpleQueue[_Job | None] = SimpleQueue()
        self._short: deque[_Job] = deque()
        self._long: deque[_Job] = deque()
        self._open = True
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.close)  # a thread inside PyTorch must not meet the interpreter's end

    def submit_short(self, work: Generator[Any, None, T]) -> Ticket[T]:
        """Hand in work whose ticks go between those of long work (predictions)."""
        return self._submit(work, short=True)

    def submit_long(self, work: Generator[Any, None, T]) -> Ticket[T]:
        """Hand in work that takes its turn, a tick at a time, with other long work."""
        return self._submit(work, short=False)

    def close(self) -> None:
        """Drop all work and end the thread; callers that wait get `UnavailableError`."""
        self._open = False
        self._inbox.put(None)
        atexit.unregister(self.close)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __len__(self) -> int:
        """How many pieces of work are under way."""
        return len(self._short) + len(self._long) + self._inbox.qsize()

    def _submit(self, work: Generator[Any, None, T], *, short: bool) -> Ticket[T]:
        ticket: Ticket[T] = Ticket()
        job = _Job(work, ticket._outbox, weakref.ref(ticket), short)
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
        """Take in what waits; block only where there is nothing to do."""
        idle = not self._short and not self._long
        while self._open and (idle or not self._inbox.empty()):
            job = self._inbox.get()
            if job is not None:
                (self._short if job.short else self._long).append(job)
            idle = False

    def _tick(self, row: "deque[_Job]") -> None:
        job = row.popleft()
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
        """Close work that nobody waits for; what its clean-up raises has no one to go to."""
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
    """Empty the frames behind an error and its causes: their locals would pin activations."""
    seen: set[int] = set()  # an error may be its own cause
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__


def once(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Generator[None, None, T]:
    """Work of one tick: call `function`."""
    return function(*args, **kwargs)
    yield
