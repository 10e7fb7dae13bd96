"""Answers the front process's requests about the predictor's adapters, on separate threads."""

import threading
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final

import msgspec

from cog_adapt.server.adapter_messages import (
    LEASE_SECONDS,
    AdapterChanged,
    AdapterFault,
    AdapterReport,
    AdaptersAnswered,
    AdaptersListed,
    AskAdapters,
    KeepServing,
    lease_clock,
)
from cog_adapt.server.worker.active import NO_PREDICTION, current
from cog_adapt.server.worker.extensions import (
    ForgetsAdaptations,
    KeepingAdapters,
    Leased,
    Noting,
)

THREADS: Final = 4  # so that a check of an upload does not delay a list
LISTED_AT_ONCE: Final = 100
_UNKNOWN = "the predictor's adapters failed; the server's log says how"


class AdapterLease:
    """How long this process may find adapters without news of other servers.

    A process that has just started has read the files.
    """

    def __init__(self) -> None:
        self._until = lease_clock() + LEASE_SECONDS

    def renew(self, message: KeepServing) -> None:
        """Accept the front process's news."""
        self._until = message.until

    def holds(self) -> bool:
        """Return whether adapters may be found now."""
        return lease_clock() < self._until


class AdapterAnswers:
    """The predictor's adapters, for the front process.

    Other workers' changes have a thread of their own, so uploads do not delay them. Changes during
    the predictor's setup are acknowledged and kept, and applied before the worker is ready.

    Args:
        adapters: the predictor's.
        send: sends a message to the front process.
        lease: how long adapters are found.
    """

    def __init__(
        self,
        adapters: KeepingAdapters,
        send: Callable[[AdapterReport], None],
        lease: AdapterLease,
    ) -> None:
        self._adapters = adapters
        if isinstance(adapters, Leased):
            adapters.serve_while(lease.holds)
        self._send = send
        self._questions: SimpleQueue[AskAdapters] = SimpleQueue()
        self._notes: SimpleQueue[AskAdapters] = SimpleQueue()
        self._noting = threading.local()

    def start(self, kept: Iterable[AskAdapters] = ()) -> None:
        """Send the full list and every later change; begin to answer.

        Args:
            kept: changes acknowledged during the setup, applied before this returns.
        """
        self._adapters.watch(self._tell)
        for question in kept:
            self._report_on(question)
        Thread(target=self._list, name="adapters list", daemon=True).start()
        for questions, threads in ((self._questions, THREADS), (self._notes, 1)):
            for _ in range(threads):
                Thread(target=self._work, args=(questions,), name="adapters", daemon=True).start()

    def answer(self, question: AskAdapters) -> None:
        """Queue a request for an answer."""
        (self._notes if question.action == "note" else self._questions).put(question)

    def _tell(self, owner: str, adapter_id: str, metadata: dict[str, Any] | None) -> None:
        """Send a change at once, on any thread: the front process gets it before the run ends."""
        if getattr(self._noting, "is_on", False):
            return
        encoded = None if metadata is None else msgspec.json.encode(metadata)
        self._send(AdapterChanged(owner, adapter_id, encoded))

    def _list(self) -> None:
        current.set(NO_PREDICTION)
        try:
            found = self._adapters.describe(None)
            parts = [found[at : at + LISTED_AT_ONCE] for at in range(0, len(found), LISTED_AT_ONCE)]
            encoded = [msgspec.json.encode(part) for part in parts]
        except Exception:  # noqa: BLE001 - the user's code may raise anything
            traceback.print_exc()
            self._send(AdaptersListed(b"[]", is_last=True, is_whole=False))
            return
        for part in encoded:
            self._send(AdaptersListed(part, is_last=False))
        self._send(AdaptersListed(b"[]", is_last=True))

    def _work(self, questions: "SimpleQueue[AskAdapters]") -> None:
        current.set(NO_PREDICTION)  # what the adapter store prints belongs to no prediction
        while True:
            self._send(self._report_on(questions.get()))

    def _report_on(self, question: AskAdapters) -> AdaptersAnswered:
        try:
            answer = msgspec.json.encode(self._ask(question))
        except Exception as error:  # noqa: BLE001 - the user's code may raise anything
            fault = _fault_of(error)
            if fault in ("storage", "unknown"):
                traceback.print_exc()
            text = _UNKNOWN if fault == "unknown" else str(error)
            return AdaptersAnswered(question.number, fault=fault, error=text)
        return AdaptersAnswered(question.number, answer)

    def _ask(self, question: AskAdapters) -> object:
        owner, adapter_id, path = question.owner, question.adapter_id, Path(question.path)
        if question.action == "export":
            return str(self._adapters.export(owner, adapter_id, question.format, path))
        if question.action == "take":
            return self._adapters.take(owner, path)
        if question.action == "change":
            changes = msgspec.json.decode(question.changes)
            return self._adapters.change(owner, adapter_id, changes)
        if question.action == "describe":
            return len(self._adapters.describe(owner))  # the front was told each of them
        if question.action == "remove":
            return self._adapters.remove(owner, adapter_id)
        if question.action == "note":
            self._note(owner, adapter_id, msgspec.json.decode(question.changes))
        elif isinstance(self._adapters, ForgetsAdaptations):
            self._adapters.forget(owner, adapter_id or None)
        return None

    def _note(self, owner: str, adapter_id: str, metadata: dict[str, Any] | None) -> None:
        """Apply another worker's change without reporting it, which would echo for ever."""
        if not isinstance(self._adapters, Noting):
            return
        self._noting.is_on = True
        try:
            self._adapters.note(owner, adapter_id, metadata)
        finally:
            self._noting.is_on = False


def _fault_of(error: Exception) -> AdapterFault:
    """Return the side at fault, by the error's class; the predictor's classes are unknown here."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if "AdapterNotFound" in names:
        return "not found"
    if "NotServedError" in names:
        return "unavailable"
    if getattr(error, "caller_error", False):
        return "input"
    return "storage" if "StoreError" in names or isinstance(error, OSError) else "unknown"
