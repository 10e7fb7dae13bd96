"""A loaded model and its work, for the model thread only.

Each method that ends in `ing` is a generator for the scheduler. The base is never written: a census
taken in setup is compared with it after every adaptation, and once they differ no more work is
done. This module knows no thread and no caller.
"""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.bounded_rate import adapt_within_bounds
from cog_adapt.runner.adaptation.compiling import may_compile
from cog_adapt.runner.adaptation.first_tensors import going_on, labels_to_learn
from cog_adapt.runner.adaptation.memory_estimate import MemoryEstimates, Needed
from cog_adapt.runner.adaptation.methods import (
    automatic_learning_rate,
    gradient_method,
    own_method,
    resolve,
    start_tensors,
)
from cog_adapt.runner.adaptation.report import AdaptationReport, Snapshot, Step
from cog_adapt.runner.adaptation.start import (
    Checkpoints,
    Start,
    Trainable,
    TrainingConfig,
    TrainingSet,
)
from cog_adapt.runner.adaptation.step_parts import limit_for
from cog_adapt.runner.auto.features import gathered
from cog_adapt.runner.auto.head import features_of
from cog_adapt.runner.auto.run import adapt_automatically, fit_head
from cog_adapt.runner.auto.stages import Unfeatured, adapt_unfeatured
from cog_adapt.runner.auto.start import AutoStart, InputLookup
from cog_adapt.runner.config import AUTO, HEAD, Recipe, RunnerSettings
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.devices.memory import explaining_memory
from cog_adapt.runner.errors import AdaptationError, InputError
from cog_adapt.runner.inference.label_tensors import finished, label_tensors
from cog_adapt.runner.model.adaptation_memory import admitted
from cog_adapt.runner.model.faulty_row import naming_row
from cog_adapt.runner.model.predictions import Predictions
from cog_adapt.runner.modules.adapters import Adapter
from cog_adapt.runner.modules.loaded_base import LoadedBase, moved
from cog_adapt.runner.scheduling.elsewhere import Elsewhere
from cog_adapt.runner.task.task import Task
from gradient_check.phases.replicas import Tensors

Progress = Step | Snapshot | Needed | Elsewhere[Any] | None


@dataclass(frozen=True)
class Adaptation:
    """The result of an adaptation.

    Attributes:
        adapter: None: the base answers best.
        recipe: with the method, the rank and the learning rate that were used.
        begin: the adapter that its steps began from, or None.
    """

    adapter: Adapter | None
    report: AdaptationReport
    recipe: Recipe
    begin: Adapter | None = None


class LoadedModel:
    """The base, with its predictions and its adaptations.

    Made from a task and its settings; SetupError: the device, the precision or the module cannot be
    used.

    Attributes:
        threads: torch's, on the model thread; another thread of this process may have another
            number.
    """

    def __init__(self, task: Task, settings: RunnerSettings) -> None:
        self.task = task
        self.base = LoadedBase(task, settings)
        self.predictions = Predictions(task, self.base, settings)
        self.estimates = MemoryEstimates()
        self.serve_mode = settings.serve_mode
        self.batch_size = settings.batch_size
        self.threads = torch.get_num_threads()
        self.compiles = may_compile(settings.compile_blocks, self.base.precision.device)

    def resolved(self, recipe: Recipe, begin: Adapter | None = None) -> Recipe:
        """Fill in what the recipe leaves open (`resolve`); on any thread."""
        own = own_method(self.base.template, self.task)
        return resolve(recipe, task=self.task, own=own, begin=begin)

    @property
    def damage(self) -> tuple[str, ...]:
        """The base's difference from its census, or its failed device; empty while all is well."""
        return self.base.damage

    def adapting(
        self,
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None = None,
        checkpoints: Checkpoints | None = None,
        kept: InputLookup | None = None,
    ) -> Generator[Progress, None, Adaptation]:
        """Adapt to examples, a step a tick; check the base at the end, also after an error.

        Before the first step, the generator yields its memory demand, and may have to wait there.
        """
        self.base.refuse_when_damaged()
        automatic = AUTO in (recipe.method, self.resolved(recipe, begin).method)
        adapting = self._adapting_automatically if automatic else self._adapting_by_steps
        device = self.base.precision.device
        with self.base.guarded(), explaining_memory(device, AdaptationError):
            work = adapting(
                examples=examples, recipe=recipe, begin=begin, checkpoints=checkpoints, kept=kept
            )
            again = partial(self.starting, examples, recipe, begin=begin)
            return (yield from naming_row(work, again=again, task=self.task, device=device))

    def _adapting_by_steps(
        self,
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None,
        checkpoints: Checkpoints | None,
        kept: InputLookup | None,
    ) -> Generator[Progress, None, Adaptation]:
        start = yield from self.starting(examples, recipe, begin=begin, checkpoints=checkpoints)
        start = yield from admitted(self.estimates, start.with_kept_rows(kept))
        fitted = (yield from self._fitting(start, kept)) if begin is None else None
        if fitted is not None:
            return fitted
        tensors, report = yield from adapt_within_bounds(start)
        used = replace(start.training.recipe, learning_rate=report.learning_rate)
        return Adaptation(self._adapter(start, tensors), report=report, recipe=used, begin=begin)

    def start(self, examples: Sequence[Example], recipe: Recipe) -> Start:
        """Do what `starting` does, at once."""
        return finished(self.starting(examples, recipe))

    def starting(
        self,
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None = None,
        checkpoints: Checkpoints | None = None,
        is_blind: bool = False,
    ) -> Generator[None, None, Start]:
        """Prepare an adaptation, some labels a tick; blind: no example is seen."""
        began = time.monotonic()
        if not examples:
            raise InputError("no examples: send at least one for each label.")
        recipe = self.resolved(recipe, begin)
        labels = labels_to_learn(self.task, examples, begin)
        rate = recipe.learning_rate or automatic_learning_rate(
            self.base.template, self.task, recipe.method
        )
        seen = () if is_blind else examples
        first = yield from _first_tensors(
            self, labels=labels, examples=seen, recipe=recipe, begin=begin
        )
        start = Start(
            task=self.task,
            trained=Trainable(
                template=self.base.template, tensors=first, scales=begin.scales if begin else {}
            ),
            data=TrainingSet(examples=examples, labels=labels),
            training=TrainingConfig(
                recipe=recipe,
                precision=self.base.precision,
                learning_rate=rate,
                limit=limit_for(self.task, self.base.precision.device, recipe.halve_at),
                compiles=self.compiles,
            ),
            began=began,
        )
        return checkpoints.added_to(start) if checkpoints else start

    def _adapter(self, start: Start, tensors: Tensors, method: str = "") -> Adapter:
        return Adapter(
            tensors=tensors,
            labels=tuple(start.data.labels),
            method=method or start.training.recipe.method,
            base=self.base.digest,
            scales=start.trained.scales,
        )

    def _adapting_automatically(
        self,
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None,
        checkpoints: Checkpoints | None,
        kept: InputLookup | None,
    ) -> Generator[Progress, None, Adaptation]:
        """Let `auto` choose; a task without features gets its own method, and early stopping."""
        own = gradient_method(self.base.template, self.task)
        start = yield from self.starting(examples, replace(recipe, method=own), is_blind=True)
        start = yield from admitted(self.estimates, start.with_kept_rows(kept))
        given = yield from _gathered(self, start, kept)
        outcome = adapter = None
        if given is not None:
            known = self.predictions.modules.checked(begin).tensors if begin else {}
            given = replace(given, known=known, checkpoints=checkpoints)
            outcome = yield from adapt_automatically(given)
        if outcome is None:
            starting = partial(self.starting, recipe=recipe)
            unfeatured = Unfeatured(starting, blind=start, sent=examples, checkpoints=checkpoints)
            outcome = yield from adapt_unfeatured(unfeatured)
        if outcome.tensors is not None:
            adapter = self._adapter(start, outcome.tensors, outcome.report.method)
        used = replace(start.training.recipe, method=AUTO, learning_rate=recipe.learning_rate)
        halved_at = outcome.report.halved_at or start.training.limit.halved_at
        report = replace(_said_of(kept, outcome.report), halved_at=halved_at)
        return Adaptation(
            adapter=adapter, report=report, recipe=used, begin=begin if outcome.from_known else None
        )

    def _fitting(
        self, start: Start, kept: InputLookup | None
    ) -> Generator[None, None, Adaptation | None]:
        """Fit a head if it is linear and no step was asked for; None: steps must be taken."""
        recipe = start.training.recipe
        if recipe.method != HEAD or recipe.hold_out or recipe.learning_rate:
            return None
        given = yield from _gathered(self, start, kept)
        outcome = (yield from fit_head(given)) if given else None
        if outcome is None or outcome.tensors is None:
            return None
        report = _said_of(kept, outcome.report)
        return Adaptation(
            self._adapter(start, outcome.tensors), report, recipe
        )  # no rate means no steps


def _said_of(kept: InputLookup | None, report: AdaptationReport) -> AdaptationReport:
    """Add a note that features of another batch were used, whose last bits depend on it."""
    return replace(report, bit_for_bit=False) if kept and kept.found else report


def _gathered(
    model: LoadedModel, start: Start, kept: InputLookup | None
) -> Generator[None, None, AutoStart | None]:
    phase = model.predictions.phase
    compute = partial(features_of, phase, model.base.module, size=model.batch_size, kept=kept)
    began = time.monotonic() if start.began is None else start.began
    return gathered(start, phase=phase, compute=compute, began=began)


def _first_tensors(
    model: LoadedModel,
    labels: Sequence[str],
    examples: Sequence[Example],
    recipe: Recipe,
    begin: Adapter | None,
) -> Generator[None, None, dict[str, Tensor]]:
    phase, checked = model.predictions.phase, model.predictions.modules.checked
    fresh = partial(
        label_tensors,
        phase,
        base=model.base.module,
        size=model.batch_size,
        labels=labels,
        examples=examples,
    )
    if begin is None:
        own = start_tensors(model.base.template, model.task, recipe)
        return own | (yield from fresh())
    tensors = yield from going_on(checked(begin), labels=labels, fresh=fresh, head=model.task.head)
    return moved(tensors, model.base.precision.device)
