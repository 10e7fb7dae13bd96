"""Answers queries for callers on any thread: checks and decodes inputs, and asks the model thread.

Answers that grow are grown; all others are predicted, a batch of inputs a tick.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.inference.answers import Query, find_shortened
from cog_adapt.runner.inference.growing import GenerativeTask
from cog_adapt.runner.model.growing_answers import GrowingAnswers, OnEnd
from cog_adapt.runner.model.input_decoder import InputDecoder
from cog_adapt.runner.model.predictions import Predictions
from cog_adapt.runner.scheduling.scheduler import Scheduler
from cog_adapt.runner.scheduling.tickets import Ticket
from cog_adapt.runner.task.decoding import check_decoding
from cog_adapt.runner.task.input_sizes import check_characters
from cog_adapt.runner.task.task import Task

Pieces = AsyncGenerator[Any, None]


class QueryRunner:
    """Answers the queries of a loaded model's callers.

    Args:
        task: the task of the model.
        predictions: the predictions of the loaded model.
        scheduler: the scheduler of the model thread.
        settings: the limits of what is answered at once.

    Attributes:
        decoder: of the inputs.
        growing: the answers that grow.
    """

    def __init__(
        self, task: Task, predictions: Predictions, scheduler: Scheduler, settings: RunnerSettings
    ) -> None:
        self._task = task
        self._predictions = predictions
        self._scheduler = scheduler
        self._batch_size = settings.batch_size
        self.decoder = InputDecoder(task)
        self.growing = GrowingAnswers(predictions, scheduler, settings)

    def gauges(self) -> dict[str, Any]:
        """Return the numbers of growing answers, and histograms of all ticks."""
        return {**self.growing.gauges(), **self._scheduler.ticks.gauges()}

    def answer(self, query: Query) -> list[Any]:
        """Answer each input (InputError or WeightsError if the query does not fit the model)."""
        query = query.blended
        check_characters(self._task, query.inputs)
        check_decoding(self._task, query.inputs)
        parts = map(self.decoder.decoded, self.decoder.portions(query))
        if self._grows:
            return [answer for part in parts for answer in self.growing.whole(part)]
        return [answer for part in parts for answer in self._submit(part).wait()]

    async def answer_async(self, query: Query) -> list[Any]:
        """Answer as `answer` does, from an event loop."""
        query = query.blended
        check_characters(self._task, query.inputs)
        await self.decoder.check_async(query.inputs)
        answers: list[Any] = []
        for portion in self.decoder.portions(query):
            part = await self.decoder.decoded_async(portion)
            if self._grows:
                answers += await self.growing.whole_async(part)
            else:
                answers += await self._submit(part).wait_async()
        return answers

    async def stream(self, query: Query, on_end: OnEnd | None = None) -> Pieces:
        """Yield an answer's pieces, then call `on_end` with `Generation.facts`; leaving cancels."""
        check_characters(self._task, query.inputs)
        query = await self.decoder.whole_decoded(query.blended)
        async with aclosing(self.growing.stream(query, on_end)) as pieces:
            async for piece in pieces:
                yield piece

    async def shortened(self, inputs: Sequence[Any], owner: str) -> Sequence[int]:
        """Ask `Task.shortened` on the model thread: a tokenizer takes one caller at a time."""
        work = find_shortened(self._task, inputs, self._batch_size)
        return await self._scheduler.submit_short(work, owner).wait_async()

    @property
    def _grows(self) -> bool:
        return isinstance(self._task, GenerativeTask)

    def _submit(self, query: Query) -> Ticket[list[Any]]:
        part = self._predictions.part(query)
        return self._scheduler.submit_short(part.working(), query.owner, part)
