"""The two ends of submitted work: the caller's ticket and the model thread's job.

The caller's side must survive an exception at any bytecode (Cog's cancellation). So it holds no
Python lock, only queues whose operations are single C calls. A waiting thread polls its queue; an
event loop is woken instead, since eight streams polled every 2 ms took a tenth of a core.
"""

import asyncio
import weakref
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

T = TypeVar("T")
Progress = Callable[[Any], None]

POLL_SECONDS = 0.01  # short, because Cog's cancellation cannot interrupt a blocking wait


@dataclass(frozen=True)
class EndMessage:
    """The last message of a piece of work."""

    result: Any = None
    error: BaseException | None = None


class Outbox(SimpleQueue[Any]):
    """Messages for one caller, which may wait for them on an event loop."""

    def __init__(self) -> None:
        self._wake: Callable[[], object] | None = None

    def put(self, message: Any, block: bool = True, timeout: float | None = None) -> None:  # noqa: ANN401 - progress may be anything
        """Add a message, and wake the waiting caller."""
        super().put(message)
        wake = self._wake
        if wake is not None:
            with suppress(RuntimeError):  # the loop is closed, so no caller waits any more
                wake()

    async def filled(self) -> None:
        """Wait until there is a message; only one task may wait at a time."""
        came = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._wake = lambda: loop.call_soon_threadsafe(came.set)
        try:
            while self.empty():  # read after `_wake` is set, so that no item is missed
                await came.wait()
                came.clear()
        finally:
            self._wake = None


class Ticket(Generic[T]):
    """The caller's end of submitted work. Dropping the ticket cancels the work.

    An exception out of a wait also cancels it: that exception, if kept, would keep its frames and
    with them the ticket.
    """

    def __init__(self) -> None:
        self.outbox = Outbox()
        self.left = False

    def wait(self, on_progress: Progress | None = None) -> T:
        """Wait for the result, or raise the work's error; report progress on this thread."""
        try:
            while (ended := self._received(on_progress, POLL_SECONDS)) is None:
                continue
            return self._open(ended)
        finally:
            self.left = True

    async def wait_async(self, on_progress: Progress | None = None) -> T:
        """Wait as `wait` does, from an event loop; progress is reported on the loop's thread."""
        try:
            while (ended := self._received(on_progress, 0)) is None:
                await self.outbox.filled()
            return self._open(ended)
        finally:
            self.left = True

    async def stream_async(
        self, on_end: Callable[[T], None] | None = None
    ) -> AsyncGenerator[Any, None]:
        """Yield progress as it comes, to the end of the work; closing the stream cancels it.

        Args:
            on_end: called with the result.
        """
        try:
            while not isinstance(message := await self._next_async(), EndMessage):
                yield message
            result = self._open(message)
            if on_end is not None:
                on_end(result)
        finally:
            self.left = True

    async def _next_async(self) -> Any:  # noqa: ANN401 - progress may be anything
        await self.outbox.filled()
        return self.outbox.get()

    def _received(self, on_progress: Progress | None, seconds: float) -> EndMessage | None:
        """Report progress until none comes for `seconds`; return the last message, if it came."""
        while True:
            try:
                message = self.outbox.get(timeout=seconds)
            except Empty:
                return None
            if isinstance(message, EndMessage):
                return message
            if on_progress is not None:
                on_progress(message)

    def _open(self, ended: EndMessage) -> T:
        if ended.error is not None:
            raise ended.error
        return ended.result  # type: ignore[no-any-return]


class SharedWork(Protocol):
    """A job's work that can share a tick with the work of other jobs."""

    @property
    def ready(self) -> bool:
        """Whether other work may join it now."""

    @property
    def done(self) -> bool:
        """Whether it is finished, so that the job's generator ends at its next tick."""

    def run_with(self, others: Sequence[Any]) -> Sequence[tuple[Any, float]]:
        """Run one tick for this work and for those of the others that fit.

        Returns:
            Each part that had a share of the tick, this work included, and its share of the cost.
        """

    def news(self) -> Any:  # noqa: ANN401 - progress may be anything
        """Return the progress that a shared tick made, for this work's caller, or None."""


@dataclass(frozen=True, eq=False)
class Job:
    """The thread's end of the work: holds the outbox, but only a weak reference to the ticket.

    Attributes:
        work: each `next` is a tick; yielded values are progress, the return value is the result.
        short: whether the job's ticks run between those of long work.
        owner: the owner that pays for the job's ticks.
        may_take: seconds that one tick may last, if ticks are known to be long.
        part: the work's `SharedWork`; None: the work cannot share ticks.
    """

    work: Generator[Any, None, Any]
    outbox: SimpleQueue[Any]
    ticket: weakref.ref[Ticket[Any]]
    short: bool
    owner: str = ""
    may_take: float = 0.0
    part: SharedWork | None = None

    @property
    def dropped(self) -> bool:
        """Whether the caller has dropped or left the ticket."""
        ticket = self.ticket()
        return ticket is None or ticket.left
