"""One growing answer in progress, and its ticks, shared with other answers if possible.

A tick reads a part of the answer's input, alone, or makes one token for each of several answers:
those of one adapter by its own module, those of several by a replica with stacked pairs. This
module knows no thread.
"""

import itertools
import logging
import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from cog_adapt.runner.devices.memory import explaining_memory
from cog_adapt.runner.errors import InputError, PredictionError
from cog_adapt.runner.inference.answers import Query, options_of
from cog_adapt.runner.inference.asked_adapter import AskedAdapter, loaded
from cog_adapt.runner.inference.growing import AnswerPiece, Generation, GenerativeTask
from cog_adapt.runner.inference.growing_memory import CacheNeeded
from cog_adapt.runner.inference.prediction_part import Ticks
from cog_adapt.runner.inference.served_adapters import ReadyAdapter
from cog_adapt.runner.inference.structures import Structure
from cog_adapt.runner.task.decoding import opened
from gradient_check.phases.determinism import require_repeatable
from gradient_check.phases.modes import run_inference

logger = logging.getLogger(__name__)
_NUMBERS = itertools.count()


class GenerationPart:
    """A query's answer, a token at a tick.

    Attributes:
        number: its place among a forward's rows.
        generation: None before its first tick.
        done: whether it has ended, or failed.
        asked: the query's adapter.
        alone: whether it may not share forwards.

    Raises:
        InputError: the options are not the task's, there is not exactly one input, or it asks for
            equal bits on a device that cannot promise them.
    """

    def __init__(self, ticks: Ticks, task: GenerativeTask, query: Query) -> None:
        if query.deterministic:
            require_repeatable(ticks.phase.precision.device)
        if len(query.inputs) != 1:
            raise InputError(f"{len(query.inputs)} inputs for one answer. Send one at a time.")
        self.ticks = ticks
        self.task = task
        self.query = query
        self.options = options_of(task, query)
        self.number = next(_NUMBERS)
        self.alone = query.deterministic
        self.asked = AskedAdapter(ticks.modules, ticks.shared, query)
        self.generation: Generation | None = None
        self._error: Exception | None = None
        self._made: AnswerPiece | None = None
        self._began = time.monotonic()
        self._first: float | None = None

    @property
    def done(self) -> bool:
        """Whether its own next tick is the last."""
        return self._error is not None or (self.generation is not None and self.generation.done)

    @property
    def ready(self) -> bool:
        """Whether its next token may share a forward now."""
        joins = self.generation is not None and self.generation.joins
        return joins and not self.alone and not self.done and self.asked.may_join

    def news(self) -> AnswerPiece | None:
        """Return the last tick's output."""
        made, self._made = self._made, None
        return made

    def working(self) -> Generator[Any, None, dict[str, Any]]:
        """Answer, a tick at a time; shared ticks come in between.

        Returns:
            The answer's cost.
        """
        with explaining_memory(self.ticks.phase.precision.device, PredictionError):
            yield from self.ticks.modules.serving(self.query)
            (value,) = opened(self.task, self.query.inputs)
            self.generation = self.task.begin(value, self.options)
            try:
                yield from self._growing(self.generation)
            finally:
                self.generation.close()
        return self._facts(self.generation)

    def run_with(self, others: Sequence["GenerationPart"]) -> list[tuple["GenerationPart", float]]:
        """Make a token for this answer and for those of the others that fit, in one forward.

        Returns:
            Each answer that had a share in the tick, and its share of the cost.
        """
        structure, parts = _fitting(self, others)
        parts = parts[: self.ticks.modules.most_together(part.query for part in parts)]
        parts = parts[: self._most(structure)]
        parts.sort(key=lambda part: part.number)  # so that the same answers have the same rows
        served = loaded(parts)
        if self not in served:
            return [(self, 1.0)]
        parts = [*served]
        try:
            self._grow_together(structure, served)
        except Exception as error:  # noqa: BLE001 - each gets its own, alone in its next tick
            self._part_company(structure, parts, error)
        return [(part, 1 / len(parts)) for part in parts]

    def _growing(self, generation: Generation) -> Generator[Any, None, None]:
        yield CacheNeeded(generation.nbytes)
        while not self.done:
            served = yield from self.ticks.modules.serving(self.query)
            self._grow(served.module, [self])
            self.ticks.shared.note_alone(served)
            yield self.news()
        if self._error is not None:
            raise self._error

    def _facts(self, generation: Generation) -> dict[str, Any]:
        first = {} if self._first is None else {"seconds_to_first_token": self._first - self._began}
        return {**generation.facts(), **first}

    def _most(self, structure: Structure | None) -> int:
        most = self.ticks.batch_size
        return min(most, self.ticks.shared.most_rows(structure)) if structure else most

    def _grow_together(
        self, structure: Structure | None, served: Mapping["GenerationPart", ReadyAdapter]
    ) -> None:
        parts, holders = [*served], [*served.values()]
        if structure is None or all(holder is holders[0] for holder in holders):
            self._grow(holders[0].module, parts)
            return
        growing = [_begun(part) for part in parts]

        def forward(module: nn.Module, places: Sequence[int]) -> Tensor:
            return self.task.next_logits(module, [growing[place] for place in places])

        self._accept(parts, self.ticks.shared.rows_of(structure, holders, forward))

    def _grow(self, module: nn.Module, parts: Sequence["GenerationPart"]) -> None:
        phase = self.ticks.phase
        growing = [_begun(part) for part in parts]
        logits = run_inference(
            _next_logits, module, phase.precision, phase.serve_mode, self.task, growing
        )
        self._accept(parts, logits)

    def _accept(self, parts: Sequence["GenerationPart"], logits: Tensor) -> None:
        """Continue each answer by its row; an answer that fails does so alone."""
        for part, row in zip(parts, logits, strict=True):
            try:
                part._go_on(row)
            except Exception as error:  # noqa: BLE001 - its own caller's to see
                part._error = error

    def _go_on(self, logits: Tensor) -> None:
        generation = _begun(self)
        self.task.accept(generation, logits)
        piece = generation.taken()
        if piece is not None:
            self._first = self._first or time.monotonic()
            self._made = AnswerPiece(piece)

    def _part_company(
        self, structure: Structure | None, parts: Sequence["GenerationPart"], error: Exception
    ) -> None:
        if structure is not None:
            less = self.ticks.shared.note_failure(structure, len(parts), error)
            logger.warning(
                "a shared forward failed, its answers grow alone: %s", less, exc_info=error
            )
        for part in parts:
            part.alone = True


def _begun(part: GenerationPart) -> Generation:
    assert part.generation is not None
    return part.generation


def _next_logits(module: nn.Module, task: GenerativeTask, growing: Sequence[Generation]) -> Tensor:
    return task.next_logits(module, growing)


def _fitting(
    first: GenerationPart, others: Sequence[GenerationPart]
) -> tuple[Structure | None, list[GenerationPart]]:
    """Return the answers that one forward serves, and the structure that joins their adapters."""
    structure, parts = first.asked.structure, [first]
    for other in others:
        if len(parts) == first.ticks.batch_size:
            break  # a thousand parts may wait
        its = other.asked.structure
        joined = structure.joined(its) if structure and its else None
        if joined is not None or other.asked.key == first.asked.key:
            structure = joined or structure
            parts.append(other)
    return structure, parts
