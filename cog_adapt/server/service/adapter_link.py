"""Requests to a worker about adapters, and its messages about them."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Protocol

import msgspec

from cog_adapt.server.adapter_messages import (
    AdapterAction,
    AdapterChanged,
    AdapterFault,
    AdapterReport,
    AdaptersAnswered,
    AdaptersListed,
    AskAdapters,
    Claim,
    KeepServing,
    Unclaim,
)
from cog_adapt.server.errors import (
    AdapterError,
    AdapterTimeout,
    DiskFull,
    InvalidRequest,
    NotFound,
    NotReady,
    QueueFull,
    RequestError,
)

MOST_OPEN: Final = 64
NOTE_SECONDS: Final = 10.0
_GONE = "the model process ended before it answered. Send the request again when it is ready."


class AdapterListener(Protocol):
    """Receives a worker's messages about adapters."""

    def on_changed(self, report: AdapterChanged) -> None:
        """Accept a change."""

    def unwritten(self) -> "asyncio.Task[None] | None":
        """Return the write after which other servers find all adapters so far; None: they do."""

    def on_listed(self, report: AdaptersListed) -> None:
        """Accept one batch of the full list, which is newer than earlier changes."""

    def on_claim(self, report: Claim | Unclaim) -> None:
        """Accept a claim to an adaptation, or its end."""

    def on_exit(self) -> None:
        """Handle the end of the process: the next messages come from another."""


class AdapterLink:
    """The front process's link to a worker, for adapters.

    Args:
        send: sends a message to the worker; false if it is gone.

    Attributes:
        listener: receives the worker's messages.
    """

    def __init__(self, send: Callable[[AskAdapters | KeepServing], bool]) -> None:
        self._send = send
        self._numbers = count(1)
        self._open: dict[int, asyncio.Future[AdaptersAnswered]] = {}
        self._asked = 0
        self.listener: AdapterListener | None = None

    async def ask(self, action: AdapterAction, owner: str, seconds: float, **more: Any) -> Any:  # noqa: ANN401
        """Ask, and return the answer from its JSON.

        Args:
            action: the action.
            owner: of the adapter.
            seconds: the timeout.
            **more: the other attributes of `AskAdapters`.

        Raises:
            QueueFull: too many requests are open.
            NotReady: the process is gone.
            AdapterTimeout: no answer came in time.
            RequestError: the answer is a refusal.
        """
        if self._asked >= MOST_OPEN:
            text = f"{MOST_OPEN} requests about adapters wait for the model process. Try later."
            raise QueueFull(text, retry_after=1)
        self._asked += 1
        try:
            return await self._exchange(action, owner, seconds, **more)
        finally:
            self._asked -= 1

    async def note(self, owner: str, adapter_id: str, metadata: bytes | None) -> None:
        """Report another worker's change of an adapter; None: the adapter was removed.

        Raises:
            NotReady: the process is gone; the next process reads the files.
            AdapterTimeout: the worker did not confirm in time.
            RequestError: the worker failed.
        """
        changes = b"null" if metadata is None else metadata
        named = {"adapter_id": adapter_id, "changes": changes}
        await self._exchange("note", owner, NOTE_SECONDS, **named)

    def keep_serving(self, until: float) -> None:
        """Let the worker find adapters until this moment, by `lease_clock`."""
        self._send(KeepServing(until))

    async def _exchange(
        self,
        action: AdapterAction,
        owner: str,
        seconds: float,
        **more: Any,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        number = next(self._numbers)
        future = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            return await self._answer(AskAdapters(number, action, owner, **more), future, seconds)
        finally:
            self._open.pop(number, None)

    async def _answer(
        self, question: AskAdapters, future: "asyncio.Future[AdaptersAnswered]", seconds: float
    ) -> Any:  # noqa: ANN401
        if not self._send(question):
            raise NotReady(_GONE)
        done, _ = await asyncio.wait({future}, timeout=seconds)
        if not done:
            raise AdapterTimeout(
                f"the model process did not {question.action} it within {seconds:g} s. Try later."
            )
        if future.cancelled():
            raise NotReady(_GONE)
        answered = future.result()
        if answered.fault is not None:
            raise _refusal(answered.fault, answered.error)
        return msgspec.json.decode(answered.answer)

    def unwritten(self) -> "asyncio.Task[None] | None":
        """Return the write after which other servers find all adapters so far; None: they do."""
        return None if self.listener is None else self.listener.unwritten()

    def on_report(self, report: AdapterReport) -> None:
        """Accept the worker's report about adapters."""
        if isinstance(report, AdaptersAnswered):
            future = self._open.get(report.number)
            if future is not None and not future.done():
                future.set_result(report)
        elif self.listener is None:
            return
        elif isinstance(report, AdapterChanged):
            self.listener.on_changed(report)
        elif isinstance(report, Claim | Unclaim):
            self.listener.on_claim(report)
        else:
            self.listener.on_listed(report)

    def on_exit(self) -> None:
        """Handle the end of the process: open requests get no answer."""
        for future in self._open.values():
            future.cancel()
        if self.listener is not None:
            self.listener.on_exit()


def _refusal(fault: AdapterFault, text: str) -> RequestError:
    if fault == "not found":
        return NotFound(text)
    if fault == "input":
        return InvalidRequest(text, ("body",))
    if fault == "unavailable":
        return NotReady(text)
    return DiskFull(text) if fault == "storage" else AdapterError(text)
