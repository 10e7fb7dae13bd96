"""Answers a request with the closed-form head while the gradient steps are still running."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from typing import TypeVar

from cog_adapt.runner.auto.run import Early
from cog_adapt.runner.heads.decision import BASE
from cog_adapt.runner.inference.answers import Query
from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.requests.progress import Progress

T = TypeVar("T")


class EarlyAnswer:
    """Shows an adaptation's progress, and the answers of its closed-form head.

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
        """Show a step; start the early answer when the closed-form head arrives."""
        if isinstance(progress, Early):
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

    async def _answer_by(self, early: Early) -> None:
        query = self._query
        if early.decision.chosen != BASE:
            adapter = Adapter(
                tensors=early.tensors, labels=early.labels, method="head", base=self._runner.base
            )
            query = replace(query, adapter=adapter, labels=())
        predictions = await self._runner.predict_async(query)
        self._progress.show_early(predictions, early.decision.sentence)


def _seen(answer: asyncio.Task[None]) -> None:
    """Read an early answer's error, lest asyncio log it: the caller gets the adaptation's."""
    if not answer.cancelled():
        answer.exception()
