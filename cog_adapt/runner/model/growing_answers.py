"""Growing answers for callers on any thread: whole, or a piece at a time."""

from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.inference.growing import AnswerPiece, GenerativeTask
from cog_adapt.runner.inference.growing_memory import generation_memory
from cog_adapt.runner.model.predictions import Predictions
from cog_adapt.runner.scheduling.admission import Admission
from cog_adapt.runner.scheduling.held_memory import HeldMemory
from cog_adapt.runner.scheduling.scheduler import Scheduler
from cog_adapt.runner.scheduling.tickets import Ticket

OnEnd = Callable[[dict[str, Any]], None]


class GrowingAnswers:
    """Submits growing answers to the model thread, and passes on their pieces.

    Args:
        predictions: of the loaded model.
        scheduler: of its thread.
        settings: bound the memory of growing answers.
    """

    def __init__(
        self, predictions: Predictions, scheduler: Scheduler, settings: RunnerSettings
    ) -> None:
        self._predictions = predictions
        self._scheduler = scheduler
        limit = partial(generation_memory, settings, predictions.phase.precision.device)
        self._admission = Admission(scheduler, HeldMemory(limit, settings.owner_share))

    def whole(self, query: Query) -> list[Any]:
        """Answer each input; all answers grow together."""
        tickets = self._submit_each(query)
        try:
            return [self._joined(_pieces_of(ticket)) for ticket in tickets]
        finally:
            _leave(tickets)

    async def whole_async(self, query: Query) -> list[Any]:
        """Answer each input, from an event loop."""
        tickets = self._submit_each(query)
        try:
            return [self._joined([p async for p in _stream(ticket)]) for ticket in tickets]
        finally:
            _leave(tickets)

    async def stream(self, query: Query, on_end: OnEnd | None = None) -> AsyncGenerator[Any, None]:
        """Yield the pieces of an answer; closing the stream cancels the rest.

        Args:
            query: with one input, if the task's answers grow.
            on_end: called with the cost of the answer, if the task reports it.
        """
        async with aclosing(_stream(self.submit(query), on_end)) as pieces:
            async for piece in pieces:
                yield piece

    def gauges(self) -> dict[str, float]:
        """Return numbers for a server's metrics."""
        return self._admission.gauges("generation_bytes", "generations_waiting")

    def _submit_each(self, query: Query) -> list[Ticket[Any]]:
        return [self.submit(replace(query, inputs=[each])) for each in query.inputs]

    def submit(self, query: Query) -> Ticket[Any]:
        """Submit a query with one input, where the task's answers grow."""
        part = self._predictions.growing(query)
        if part is None:
            work: Generator[Any, None, None] = self._predictions.generating(query)
            return self._scheduler.submit_short(work, query.owner)
        return self._admission.submit(part.working(), query.owner, part)

    def _joined(self, pieces: list[Any]) -> Any:  # noqa: ANN401 - an answer of any kind
        task = self._predictions.phase.task
        assert isinstance(task, GenerativeTask)
        return task.joined(pieces)


def _pieces_of(ticket: Ticket[Any]) -> list[Any]:
    pieces: list[Any] = []
    ticket.wait(
        lambda message: pieces.append(message.piece) if isinstance(message, AnswerPiece) else None
    )
    return pieces


async def _stream(ticket: Ticket[Any], on_end: OnEnd | None = None) -> AsyncGenerator[Any, None]:
    def ended(facts: dict[str, Any] | None) -> None:
        if facts and on_end is not None:
            on_end(facts)

    async with aclosing(ticket.stream_async(ended)) as messages:
        async for piece in _pieces_in(messages):
            yield piece


async def _pieces_in(messages: AsyncGenerator[Any, None]) -> AsyncGenerator[Any, None]:
    async for message in messages:
        if isinstance(message, AnswerPiece):
            yield message.piece


def _leave(tickets: list[Ticket[Any]]) -> None:
    """Cancel an answer without callers."""
    for ticket in tickets:
        ticket.left = True
