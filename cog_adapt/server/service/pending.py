"""Requests to a worker that concern no prediction: its health and its numbers."""

import asyncio
from collections.abc import Callable
from typing import Any

from cog_adapt.server.protocol import Gauges, Health, Question, Report, SelfTested

ANSWERS = (Health, SelfTested, Gauges)


class PendingRequests:
    """The unanswered requests to a worker; equal requests at the same time share one answer.

    Args:
        send: sends a request to the worker.
    """

    def __init__(self, send: Callable[[Question], object]) -> None:
        self._send = send
        self._open: dict[type[Report], asyncio.Future[Report]] = {}

    async def ask(self, request: Question, answer: type[Report], seconds: float) -> Any:  # noqa: ANN401
        """Send a request, and wait for an answer of a type.

        Raises:
            TimeoutError: no answer comes in time, or the process is gone.
        """
        future = self._open.get(answer)
        if future is None or future.done():
            future = self._open[answer] = asyncio.get_running_loop().create_future()
            self._send(request)
        done, _ = await asyncio.wait({future}, timeout=seconds)
        if not done or future.cancelled():
            self._open.pop(answer, None)
            raise TimeoutError
        return future.result()

    def resolve(self, report: Report) -> None:
        """Pass an answer to the request that waits for it."""
        future = self._open.pop(type(report), None)
        if future is not None and not future.done():
            future.set_result(report)

    def cancel_all(self) -> None:
        """Cancel all requests, because no answer will come."""
        for future in self._open.values():
            future.cancel()
        self._open.clear()
