"""The only thread that writes; it commits all waiting changes together."""

import asyncio
import contextlib
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from sqlalchemy import Connection

from cog_adapt.server.errors import StorageError
from cog_adapt.server.records.batch import Batch, Call, Key, Waiter
from cog_adapt.server.records.record import Delivery, Record
from cog_adapt.server.records.transactions import Transactions

PAUSE: Final = 0.1  # seconds in which newer states may replace older ones, if no caller waits
RETRY_PAUSE: Final = 0.5  # seconds after a failure
MAX_KEPT: Final = 50_000  # changes stored in memory while the database cannot be written
_log = logging.getLogger(__name__)
T = TypeVar("T")
_Answer = tuple["asyncio.Future[Any]", Any, Exception | None]


class Writer:
    """Commits changes in the order of their submission."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self._beat: Callable[[Connection], None] | None = None
        self._beat_seconds = self._next_beat = 0.0
        self._lock = threading.Lock()  # held for a few instructions only
        self._open = Batch()
        self._writing = Batch()
        self._waken = threading.Event()
        self._urgent = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="records", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of changes that are not committed yet."""
        return sum(len(batch.behind) + len(batch.durable) for batch in (self._open, self._writing))

    def put(self, record: Record | None, deliveries: Iterable[Delivery]) -> None:
        """Write soon. Runs on the event loop's hot path."""
        with self._lock:
            self._refuse_if_closing()
            batch = self._open
            batch.behind.add(record, deliveries)
            if batch.durable:
                batch.durable.forget(record, deliveries)
        if not self._waken.is_set():
            self._waken.set()

    def put_durably(
        self, record: Record | None, deliveries: Iterable[Delivery]
    ) -> "asyncio.Future[None]":
        """Write now; `find` returns the record from now on.

        Returns:
            a future that resolves at the commit, or has a StorageError if that failed for good.
        """
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        key = None if record is None else record.key
        with self._lock:
            if self._closing:
                future.set_exception(_closed())
                return future
            self._open.durable.add(record, deliveries)
            self._open.waiters.append(Waiter(future, key))
        self._hurry()
        return future

    async def flush(self) -> None:
        """Wait until all changes so far have been written, or have failed."""
        if self.waiting and not self._closing:
            with contextlib.suppress(StorageError):
                await self.put_durably(None, ())

    async def call(self, function: Callable[[Connection], T]) -> T:
        """Run a function in a separate transaction, after the changes so far."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        with self._lock:
            self._refuse_if_closing()
            self._open.calls.append(Call(future, function))
        self._hurry()
        return await future

    def find(self, key: Key) -> Record | None:
        """Return a record that is not committed yet, or None."""
        with self._lock:
            return self._open.find(key) or self._writing.find(key)

    def start_beating(self, beat: Callable[[Connection], None], seconds: float) -> None:
        """Run the function every `seconds` from now on."""
        self._beat_seconds = seconds
        self._next_beat = time.monotonic() + seconds
        self._beat = beat
        self._hurry()

    async def close(self, last: Callable[[Connection], None]) -> None:
        """Write the waiting changes, run the last function, and end the thread.

        Raises:
            StorageError: a change could not be written, and is lost.
        """
        with self._lock:
            self._closing = True
        self._hurry()
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._transactions.run, last)
        if self._open.behind:
            raise StorageError(
                f"{len(self._open.behind)} changes are lost: {self._transactions.error}"
            )

    def _refuse_if_closing(self) -> None:
        if self._closing:
            raise _closed()

    def _hurry(self) -> None:
        self._urgent.set()
        self._waken.set()

    def _run(self) -> None:
        while not self._closing:
            self._waken.wait(self._seconds_to_beat())
            if self._waken.is_set():
                self._urgent.wait(PAUSE if self._transactions.error is None else RETRY_PAUSE)
            self._commit_all()
            if self._beat is not None and time.monotonic() >= self._next_beat:
                self._next_beat = time.monotonic() + self._beat_seconds
                self._transactions.run(self._beat)
        self._commit_all()

    def _seconds_to_beat(self) -> float | None:
        return None if self._beat is None else max(0.0, self._next_beat - time.monotonic())

    def _commit_all(self) -> None:
        self._urgent.clear()
        self._waken.clear()
        with self._lock:
            batch = self._writing = self._open
            self._open = Batch()
        answers = self._commit(batch)
        answers += [(call.future, *self._transactions.run(call.function)) for call in batch.calls]
        _answer(answers)

    def _commit(self, batch: Batch) -> list[_Answer]:
        changes = batch.merge()
        refused, error = self._transactions.store(changes) if changes else ({}, None)
        with self._lock:
            self._writing = Batch()
            if error is not None:
                self._keep(batch)
        return [
            (waiter.future, None, error or (waiter.key and refused.get(waiter.key)) or None)
            for waiter in batch.waiters
        ]

    def _keep(self, batch: Batch) -> None:
        """Put back changes without waiting callers, to be written with the next ones."""
        given_up = self._open.behind.restore(batch.behind, MAX_KEPT)
        if given_up:
            _log.error("%d changes are lost: %s", given_up, self._transactions.error)
        if self._open.behind:
            self._waken.set()


def _closed() -> StorageError:
    return StorageError("the records are closed; nothing more can be saved")


def _answer(answers: Iterable[_Answer]) -> None:
    """Answer the waiting callers, each on its own event loop."""
    by_loop = defaultdict(list)
    for answer in answers:
        by_loop[answer[0].get_loop()].append(answer)
    for loop, its in by_loop.items():
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits any more
            loop.call_soon_threadsafe(_resolve, its)


def _resolve(answers: list[_Answer]) -> None:
    for future, result, error in answers:
        if future.done():  # its caller was cancelled
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
