"""A loaded model, and the work that can be done with it; for the model thread only.

Each method that ends in `ing` is a generator for the scheduler. The base is never written: a
census taken in setup is compared with it after every adaptation, and once they differ no more
work is done. This module knows no thread and no caller.
"""

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from cog_adapt.runner.adaptation import adapt, out_of_memory
from cog_adapt.runner.adapters import Adapter
from cog_adapt.runner.auto import (
    Early,
    adapt_automatically,
    adapt_without_features,
)
from cog_adapt.runner.auto_start import given_of, is_too_much
from cog_adapt.runner.config import AUTO, Recipe, RunnerSettings
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.examples import Example
from cog_adapt.runner.first_tensors import going_on, labels_to_learn
from cog_adapt.runner.head import KeptFeatures, features_of
from cog_adapt.runner.inference import Query
from cog_adapt.runner.label_tensors import finished, label_tensors
from cog_adapt.runner.loaded_base import LoadedBase, moved
from cog_adapt.runner.methods import automatic_learning_rate, resolve, start_tensors
from cog_adapt.runner.predictions import Predictions
from cog_adapt.runner.replicas import Tensors
from cog_adapt.runner.report import AdaptationReport, Step
from cog_adapt.runner.start import Start
from cog_adapt.runner.task import Task
from cog_adapt.runner.training_state import TrainingState

_BY_GRADIENTS = "lora"  # of a task whose own method is `auto`


@dataclass(frozen=True)
class Adaptation:
    """The outcome of an adaptation.

    Attributes:
        adapter: None: the base answers best.
        recipe: with the method, the rank and the learning rate that it had.
    """

    adapter: Adapter | None
    report: AdaptationReport
    recipe: Recipe


@dataclass(frozen=True)
class Checkpoints:
    """Where an adaptation leaves its state, and where it goes on from."""

    load: Callable[[], TrainingState | None]
    save: Callable[[TrainingState], None]
    every: int


class LoadedModel:
    """The base, with what answers by it and what adapts it.

    Args:
        task: what the user wrote.
        settings: device, precision and limits.

    Raises:
        SetupError: the device, the precision or the module cannot be used.
    """

    def __init__(self, task: Task, settings: RunnerSettings) -> None:
        self.task = task
        self.loaded = LoadedBase(task, settings)
        self.predictions = Predictions(task, self.loaded, settings)
        self.serve_mode = settings.serve_mode
        self.batch_size = settings.batch_size
        self.base, self.template = self.loaded.module, self.loaded.template
        self.census, self.healed = self.loaded.census, self.loaded.healed
        self.precision, self.digest = self.loaded.precision, self.loaded.digest

    @property
    def damage(self) -> tuple[str, ...]:
        """How the base differs from its census; empty while all is well."""
        return self.loaded.damage

    def predicting(self, query: Query) -> Generator[None, None, list[Any]]:
        """Answer inputs, a batch a tick."""
        return self.predictions.predicting(query)

    def adapting(
        self,
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None = None,
        checkpoints: Checkpoints | None = None,
        kept: KeptFeatures | None = None,
    ) -> Generator[Step | Early | None, None, Adaptation]:
        """Adapt to examples, a step a tick; whatever happens, the base is checked at the end."""
        self.loaded.refuse_when_damaged()
        automatic = resolve(recipe, self.task, begin).method == AUTO
        try:
            if automatic:
                return (yield from self._adapting_automatically(examples, recipe, kept))
            start = yield from self.starting(examples, recipe, begin, checkpoints)
            tensors, report = yield from adapt(start)
        except (RuntimeError, MemoryError) as error:
            refusal = out_of_memory(error)
            if refusal is None:
                raise
            raise refusal from error
        finally:
            self.loaded.check()
        return Adaptation(self._adapter(start, tensors), report, _used(start))

    def start(self, examples: Sequence[Example], recipe: Recipe) -> Start:
        """Do what `starting` does, at once."""
        return finished(self.starting(examples, recipe))

    def starting(
        self,
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Generator[None, None, Start]:
        """Make all that an adaptation begins with, some labels a tick."""
        if not examples:
            raise InputError("no examples: send at least one for each label.")
        recipe = resolve(recipe, self.task, begin)
        labels = labels_to_learn(self.task, examples, begin)
        rate = recipe.learning_rate or automatic_learning_rate(
            self.template, self.task, recipe.method
        )
        return Start(
            task=self.task,
            template=self.template,
            tensors=(yield from self._first_tensors(labels, examples, recipe, begin)),
            labels=labels,
            examples=examples,
            recipe=recipe,
            precision=self.precision,
            learning_rate=rate,
            resume=checkpoints.load() if checkpoints else None,
            keep=checkpoints.save if checkpoints else None,
            keep_every=checkpoints.every if checkpoints else 1,
            scales=begin.scales if begin else {},
        )

    def _adapting_automatically(
        self, examples: Sequence[Example], recipe: Recipe, kept: KeptFeatures | None
    ) -> Generator[Step | Early | None, None, Adaptation]:
        """Let `auto` choose; a task without features gets its own method, and early stopping."""
        began, phase = time.monotonic(), self.predictions.phase
        own = self.task.method if self.task.method != AUTO else _BY_GRADIENTS
        start = yield from self.starting(examples, replace(recipe, method=own))
        inputs = [example.input for example in examples]
        features = None
        if not is_too_much(start):
            features = yield from features_of(phase, self.base, inputs, self.batch_size, kept)
        given = given_of(start, phase, features, began)
        if given is None:
            outcome = yield from adapt_without_features(start)
        else:
            outcome = yield from adapt_automatically(given)
        adapter = None
        if outcome.tensors is not None:
            adapter = self._adapter(start, outcome.tensors, outcome.report.method)
        used = replace(start.recipe, method=AUTO, learning_rate=recipe.learning_rate)
        return Adaptation(adapter, outcome.report, used)

    def _adapter(self, start: Start, tensors: Tensors, method: str = "") -> Adapter:
        labels, method = tuple(start.labels), method or start.recipe.method
        return Adapter(tensors, labels, method, self.digest, start.scales)

    def _first_tensors(
        self,
        labels: Sequence[str],
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None,
    ) -> Generator[None, None, dict[str, Tensor]]:
        phase, checked = self.predictions.phase, self.predictions.modules.checked
        fresh = partial(label_tensors, phase, self.base, self.batch_size, labels, examples)
        if begin is None:
            own = start_tensors(self.template, self.task, recipe)
            return own | (yield from fresh())
        tensors = yield from going_on(checked(begin), labels, fresh, self.task.head)
        return moved(tensors, self.precision.device)


def _used(start: Start) -> Recipe:
    return replace(start.recipe, learning_rate=start.learning_rate)
