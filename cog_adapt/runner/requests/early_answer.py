"""Answers a request with what is learned so far while the gradient steps are still running."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from cog_adapt.runner.adaptation.report import Snapshot
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.requests.progress import Progress

T = TypeVar("T")


class EarlyAnswer:
    """Shows an adaptation's progress, and the answers by its snapshots.

    Args:
        runner: the model.
        query: the request's inputs, before the adaptation.
        progress: where steps and answers are shown.
    """

    def __init__(self, runner: ModelRunner, query: Query, progress: Progress) -> None:
        self._runner = runner
        self._query = query
        self._progress = progress
        self._answer: asyncio.Task[None] | None = None

    def show(self, progress: object) -> None:
        """Show a step; answer by a snapshot, unless the answer by an earlier one is on its way."""
        if isinstance(progress, Snapshot):
            if self._answer is None or (self._answer.done() and not self._answer.exception()):
                self._answer = asyncio.create_task(self._answer_by(progress))
        else:
            self._progress.show(progress)

    async def shown_while(self, learning: Awaitable[T]) -> T:
        """Wait for the adaptation, then for the early answer; leave nothing running."""
        try:
            learned = await learning
            if self._answer is not None:
                await self._answer
            return learned
        finally:
            if self._answer is not None:
                self._answer.cancel()
                self._answer.add_done_callback(_seen)

    async def _answer_by(self, snapshot: Snapshot) -> None:
        query = self._query
        if not snapshot.is_base:
            adapter = Adapter(
                tensors=snapshot.tensors,
                labels=snapshot.labels,
                method=snapshot.method,
                base=self._runner.base,
                scales=snapshot.scales,
            )
            query = replace(query, adapter=adapter, labels=())
        predictions = await self._runner.predict_async(query)
        self._progress.show_early(predictions, snapshot.expected, snapshot.step)


def _seen(answer: asyncio.Task[None]) -> None:
    """Read an early answer's error, lest asyncio log it: the caller gets the adaptation's."""
    if not answer.cancelled():
        answer.exception()
