"""The predictions of a loaded model.

Each method that ends in `ing` is a generator for the scheduler. This module knows no thread and no
caller, and takes no gradient.
"""

from collections.abc import Generator
from typing import Any

from cog_adapt.runner.config import RunnerSettings
from cog_adapt.runner.devices.memory import explaining_memory
from cog_adapt.runner.errors import PredictionError
from cog_adapt.runner.inference.answers import Phase, Query, generate_pieces, options_of
from cog_adapt.runner.inference.growing import AnswerPiece, GenerativeTask
from cog_adapt.runner.inference.growing_part import GenerationPart
from cog_adapt.runner.inference.pace import InferencePace
from cog_adapt.runner.inference.prediction_part import PredictionPart, Ticks
from cog_adapt.runner.inference.ready_modules import ReadyModules
from cog_adapt.runner.inference.together import SharedForwards
from cog_adapt.runner.modules.loaded_base import LoadedBase
from cog_adapt.runner.task.task import Task
from gradient_check.phases.determinism import require_repeatable


class Predictions:
    """Answers queries with a base and its adapters."""

    def __init__(self, task: Task, base: LoadedBase, settings: RunnerSettings) -> None:
        self.phase = Phase(task, base.precision, settings.serve_mode)
        self.modules = ReadyModules(self.phase, base, settings)
        self._base = base.digest
        self.shared = SharedForwards(base.template, self.phase)
        self._ticks = Ticks(
            phase=self.phase,
            modules=self.modules,
            shared=self.shared,
            pace=InferencePace(base.precision.device),
            batch_size=settings.batch_size,
        )

    def gauges(self) -> dict[str, Any]:
        """Return the numbers of ready adapters, and what is served as `info`."""
        info = {
            "task": type(self.phase.task).__name__,
            "base": self._base,
            "device": str(self.phase.precision.device),
            "precision": str(self.phase.precision),
        }
        return {**self.modules.served.gauges(), "info": info}

    def part(self, query: Query) -> PredictionPart:
        """Return the work that answers a query, some inputs a tick, alone or with others.

        Raises:
            InputError: the options are not the task's.
        """
        return PredictionPart(self._ticks, query)

    def growing(self, query: Query) -> GenerationPart | None:
        """Return the work that answers a query token by token; None if answers do not grow.

        Raises:
            InputError: the options are not the task's, or there is not exactly one input.
        """
        task = self.phase.task
        return (
            GenerationPart(self._ticks, task, query) if isinstance(task, GenerativeTask) else None
        )

    def generating(self, query: Query) -> Generator[Any, None, None]:
        """Stream the answer to inputs, a piece a tick."""
        options = options_of(self.phase.task, query)
        if query.deterministic:
            require_repeatable(self.phase.precision.device)
        with explaining_memory(self.phase.precision.device, PredictionError):
            served = yield from self.modules.serving(query)
            for piece in generate_pieces(
                self.phase, served=served, inputs=query.inputs, options=options
            ):
                yield AnswerPiece(piece)
