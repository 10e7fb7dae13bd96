"""Work that another thread does while a run waits for it. This module knows no thread."""

from collections.abc import Generator
from typing import Generic, TypeVar

T = TypeVar("T")


class Elsewhere(Generic[T]):
    """Work for another thread; a run that yields it as progress continues when it is done.

    Args:
        work: a generator, whose steps are ticks of the other thread.
        thread: the name of the other thread.
    """

    def __init__(self, work: Generator[object, None, T], thread: str) -> None:
        self.thread = thread
        self._work = work
        self._results: list[T] = []
        self._error: Exception | None = None

    def going_on(self) -> Generator[None, None, None]:
        """Do the work, and keep its result or its error for the waiting run."""
        try:
            while True:
                next(self._work)
                yield None
        except StopIteration as stop:
            self._results.append(stop.value)
        except Exception as error:  # noqa: BLE001 - the waiting one's to raise, whatever it is
            self._error = error

    def result(self) -> T:
        """Return the work's result, or raise its error; unfinished work is finished here."""
        if not self._results and self._error is None:
            for _ in self.going_on():
                continue
        if self._error is not None:
            raise self._error
        return self._results[0]
