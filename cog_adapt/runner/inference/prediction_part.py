"""One query in progress: its answered inputs, and the inputs of its next tick.

A tick holds as many inputs as fit its time, including those of other queries if their adapters can
share a forward. This module knows no thread.
"""

import logging
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from cog_adapt.runner.devices.memory import explaining_memory
from cog_adapt.runner.errors import InputError, PredictionError
from cog_adapt.runner.inference.answers import Phase, Query, options_of, predict_batch
from cog_adapt.runner.inference.asked_adapter import AskedAdapter, loaded
from cog_adapt.runner.inference.pace import InferencePace, costs_of, first_limit
from cog_adapt.runner.inference.ready_modules import ReadyModules
from cog_adapt.runner.inference.served_adapters import ReadyAdapter
from cog_adapt.runner.inference.structures import Structure
from cog_adapt.runner.inference.together import RowGroup, SharedForwards
from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.input_sizes import fitting
from cog_adapt.runner.task.task import Batch
from gradient_check.phases.determinism import require_repeatable

logger = logging.getLogger(__name__)
_Row = tuple["PredictionPart", int]


@dataclass(frozen=True)
class Ticks:
    """The settings shared by the ticks of all predictions.

    Attributes:
        batch_size: the most inputs of a tick.
    """

    phase: Phase
    modules: ReadyModules
    shared: SharedForwards
    pace: InferencePace
    batch_size: int


class PredictionPart:
    """A query's inputs, answered some at a tick.

    Attributes:
        answers: of the inputs in order; None for an input without an answer yet.
        waiting: positions of the inputs without an answer.
        alone: whether it may not share forwards.
        asked: the query's adapter.
        costs: tokens of the inputs that were encoded, by position.

    Raises:
        InputError: the options are not the task's, or it asks for equal bits on a device that
            cannot promise them.
    """

    def __init__(self, ticks: Ticks, query: Query) -> None:
        if query.deterministic:
            require_repeatable(ticks.phase.precision.device)
        self.ticks = ticks
        self.query = query
        self.options = options_of(ticks.phase.task, query)
        self.answers: list[Any] = [None] * len(query.inputs)
        self.waiting = [*range(len(query.inputs))]
        self.alone = query.deterministic
        self.asked = AskedAdapter(ticks.modules, ticks.shared, query)
        self.costs: dict[int, int] = {}
        self._first_limit: int | None = None

    @property
    def done(self) -> bool:
        """Whether every input has its answer."""
        return not self.waiting

    @property
    def ready(self) -> bool:
        """Whether its next inputs may share a forward now."""
        return not (self.alone or self.done) and self.structure is not None

    @property
    def structure(self) -> Structure | None:
        """The structure of parts that may join; None if the adapter cannot share now."""
        return self.asked.structure

    def news(self) -> None:
        """Return None: its caller is informed only at the end."""

    def working(self) -> Generator[None, None, list[Any]]:
        """Answer all inputs, a tick at a time, alone."""
        with explaining_memory(self.ticks.phase.precision.device, PredictionError):
            yield from self._ticks_alone()
        return self.answers

    def _ticks_alone(self) -> Generator[None, None, None]:
        while self.waiting:
            served = yield from self.ticks.modules.serving(self.query)
            self._answer_alone(served)
            if self.waiting:
                yield None

    def run_with(self, others: Sequence["PredictionPart"]) -> list[tuple["PredictionPart", float]]:
        """Answer inputs of this query and of those of the others that fit, in one forward.

        Returns:
            Each query that had a share in the tick, with its share of the cost.
        """
        structure, parts = _fitting(self, others)
        parts = parts[: self.ticks.modules.most_together(part.query for part in parts)]
        most = min(self.ticks.batch_size, self.ticks.shared.most_rows(structure))
        rows = self._chosen(((part, row) for part in parts for row in part.waiting), most)
        rows = self._without_longer(rows)
        served = loaded(dict.fromkeys(part for part, _ in rows))
        if self not in served:
            return [(self, 1.0)]
        rows = [row for row in rows if row[0] in served]
        try:
            return _shares(self._answer_together(structure, rows, served))
        except Exception as error:  # noqa: BLE001 - each gets its own, alone in its next tick
            return self._part_company(structure, rows, error)

    def _answer_alone(self, served: ReadyAdapter) -> None:
        rows, batch = self._encoded(
            self._chosen(((self, row) for row in self.waiting), self.ticks.batch_size)
        )
        began = self.ticks.pace.clock()
        answers = predict_batch(self.ticks.phase, served=served, batch=batch, options=self.options)
        self.ticks.shared.note_alone(served)
        self._record(rows, self.ticks.pace.clock() - began)
        if len(rows) == len(self.answers):  # all at once: a task may give more answers than inputs
            self.answers = answers
            self.waiting = []
        else:
            _keep(rows, answers)

    def _answer_together(
        self,
        structure: Structure,
        rows: list[_Row],
        served: Mapping["PredictionPart", ReadyAdapter],
    ) -> list[_Row]:
        rows, batch = self._encoded(rows)
        inputs: dict[PredictionPart, list[Any]] = {}
        for part, row in rows:
            inputs.setdefault(part, []).append(part.query.inputs[row])
        pieces = [RowGroup(some, served[part], part.options) for part, some in inputs.items()]
        began = self.ticks.pace.clock()
        answers = self.ticks.shared.answer(structure, pieces, batch)
        self._record(rows, self.ticks.pace.clock() - began)
        _keep(rows, [answer for some in answers for answer in some])
        return rows

    def _part_company(
        self, structure: Structure, rows: list[_Row], error: Exception
    ) -> list[tuple["PredictionPart", float]]:
        if not isinstance(error, InputError):
            less = self.ticks.shared.note_failure(structure, len(rows), error)
            logger.warning(
                "a shared forward failed, its queries run alone: %s", less, exc_info=error
            )
        parts = [*dict.fromkeys(part for part, _ in rows)]
        for part in parts:
            part.alone = True
        return [(part, 1 / len(parts)) for part in parts]

    def _chosen(self, rows: Iterable[_Row], most: int) -> list[_Row]:
        """Return the first rows that fit a tick, by their known costs."""
        return _light(_within(self._limit, [*islice(rows, most)]))

    def _without_longer(self, rows: list[_Row]) -> list[_Row]:
        """Leave out queries that continue after a tick in which this one ends."""
        chosen = Counter(part for part, _ in rows)
        ends = {part for part, count in chosen.items() if count == len(part.waiting)}
        return [row for row in rows if row[0] in ends] if self in ends else rows

    @property
    def _limit(self) -> int | None:
        """The tokens of a tick; for a deterministic query they depend on the inputs alone."""
        measured = None if self.query.deterministic else self.ticks.pace.limit()
        return measured or self._first_limit

    def _encoded(self, rows: list[_Row]) -> tuple[list[_Row], Batch]:
        """Encode rows; if they turn out to be too many for a tick, only some."""
        batch = self._encode(rows)
        self._first_limit = first_limit(batch)
        for (part, row), cost in zip(rows, costs_of(batch), strict=True):
            part.costs[row] = cost
        if len(_within(self._limit, rows)) == len(rows):
            return rows, batch
        if all(part is self for part, _ in rows):  # sorting by length pads less
            self.waiting.sort(key=lambda row: self.costs.get(row, float("inf")))
            rows = [(self, row) for row in self.waiting[: len(rows)]]
        rows = _light(_within(self._limit, rows))
        return rows, self._encode(rows)

    def _encode(self, rows: list[_Row]) -> Batch:
        return encoded(self.ticks.phase.task, [part.query.inputs[row] for part, row in rows])

    def _record(self, rows: list[_Row], seconds: float) -> None:
        self.ticks.pace.record(sum(part.costs[row] for part, row in rows), seconds)


def _keep(rows: list[_Row], answers: Sequence[Any]) -> None:
    for (part, row), answer in zip(rows, answers, strict=True):
        part.answers[row] = answer
        part.waiting.remove(row)


def _fitting(
    first: PredictionPart, others: Sequence[PredictionPart]
) -> tuple[Structure, list[PredictionPart]]:
    """Return the queries that one structure serves, and that structure."""
    structure, parts = first.structure, [first]
    assert structure is not None
    for other in others:
        own = other.structure
        joined = structure.joined(own) if own else None
        if joined is not None:
            structure = joined
            parts.append(other)
    return structure, parts


def _within(limit: int | None, rows: list[_Row]) -> list[_Row]:
    """Return the first rows whose known costs are within the limit; at least one."""
    total = 0
    for count, (part, row) in enumerate(rows):
        total += part.costs.get(row, 0)
        if limit is not None and count and total > limit:
            return rows[:count]
    return rows


def _light(rows: list[_Row]) -> list[_Row]:
    """Return the first rows whose characters fit a tick: tokenizing takes time for each."""
    return rows[: fitting([part.query.inputs[row] for part, row in rows])]


def _shares(rows: list[_Row]) -> list[tuple[PredictionPart, float]]:
    costs: dict[PredictionPart, int] = {}
    for part, row in rows:
        costs[part] = costs.get(part, 0) + part.costs[row]
    return [(part, cost / sum(costs.values())) for part, cost in costs.items()]
