"""A loaded model, and the work that can be done with it; for the model thread only.

Each method that ends in `ing` is a generator for the scheduler. The base is never written: a
census taken in setup is compared with it after every adaptation, and once they differ no more
work is done. This module knows no thread and no caller.
"""

import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from cog_adapt.runner.adaptation import adapt, out_of_memory
from cog_adapt.runner.adapter_fit import check_fits
from cog_adapt.runner.adapters import Adapter, base_digest
from cog_adapt.runner.census import Census, heal
from cog_adapt.runner.config import Precision, Recipe, RunnerSettings
from cog_adapt.runner.device import choose_precision, device_memory, fit_weights
from cog_adapt.runner.errors import InputError, UnavailableError
from cog_adapt.runner.examples import Example
from cog_adapt.runner.first_tensors import going_on, label_tensors, labels_to_learn
from cog_adapt.runner.inference import (
    Phase,
    Query,
    Served,
    ServedAdapters,
    generate_pieces,
    options_of,
    predict_batch,
)
from cog_adapt.runner.methods import automatic_learning_rate, resolve, start_tensors
from cog_adapt.runner.modes import run_inference, run_setup
from cog_adapt.runner.replicas import freeze, make_template
from cog_adapt.runner.report import AdaptationReport, Step
from cog_adapt.runner.start import Start
from cog_adapt.runner.task import Task, on_device
from cog_adapt.runner.training_state import TrainingState

_DEVICE_SHARE = 8  # an eighth of the device's memory holds adapters that are ready
_CPU = torch.device("cpu")
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Adaptation:
    """The outcome of an adaptation.

    Attributes:
        recipe: with the method, the rank and the learning rate that it had.
    """

    adapter: Adapter
    report: AdaptationReport
    recipe: Recipe


@dataclass(frozen=True)
class Checkpoints:
    """Where an adaptation leaves its state, and where it goes on from."""

    load: Callable[[], TrainingState | None]
    save: Callable[[TrainingState], None]
    every: int


class LoadedModel:
    """The base, its template and its census.

    Args:
        task: what the user wrote.
        settings: device, precision and limits.

    Raises:
        SetupError: the device, the precision or the module cannot be used.
    """

    def __init__(self, task: Task, settings: RunnerSettings) -> None:
        self.task = task
        self.serve_mode = settings.serve_mode
        self.batch_size = settings.batch_size
        precision = choose_precision(settings)
        self.base = run_setup(task.load)
        self.healed = heal(self.base)
        if self.healed:
            logger.warning("tensors born in inference mode were copied: %s", self.healed)
        self.base = run_setup(self.base.to, precision.device)
        self.precision = fit_weights(precision, self.base, settings.precision)
        if any(is_lazy(parameter) for parameter in self.base.parameters()):
            _materialize(self.base, task, self.precision)
        freeze(self.base)
        self.template = make_template(self.base)
        self.census = Census.of(self.base)
        self.digest = base_digest(dict(self.base.named_parameters()))
        most_bytes = settings.served_adapter_bytes or _share_of(precision.device)
        self.served = ServedAdapters(
            self.template, self.precision, settings.served_adapters, most_bytes
        )
        self.damage: tuple[str, ...] = ()
        self._phase = Phase(task, self.precision, settings.serve_mode)

    def predicting(self, query: Query) -> Generator[None, None, list[Any]]:
        """Answer inputs, a batch a tick."""
        self._refuse_when_damaged()
        options = options_of(self.task, query)
        predictions: list[Any] = []
        for first in range(0, len(query.inputs), self.batch_size):
            batch = query.inputs[first : first + self.batch_size]
            predictions += predict_batch(self._phase, self._serve(query), batch, options)
            if first + self.batch_size < len(query.inputs):
                yield None
        return predictions

    def generating(self, query: Query) -> Generator[Any, None, None]:
        """Stream the answer to inputs, a piece a tick."""
        self._refuse_when_damaged()
        options = options_of(self.task, query)
        yield from generate_pieces(self._phase, self._serve(query), query.inputs, options)

    def adapting(
        self,
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Generator[Step | None, None, Adaptation]:
        """Adapt to examples, a step a tick; whatever happens, the base is checked at the end."""
        self._refuse_when_damaged()
        try:
            start = self.start(examples, recipe, begin, checkpoints)
            tensors, report = yield from adapt(start)
        except (RuntimeError, MemoryError) as error:
            refusal = out_of_memory(error)
            if refusal is None:
                raise
            raise refusal from error
        finally:
            self._check_base()
        adapter = Adapter(
            tensors, tuple(start.labels), start.recipe.method, self.digest, start.scales
        )
        recipe = replace(start.recipe, learning_rate=start.learning_rate)
        return Adaptation(adapter, report, recipe)

    def start(
        self,
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> Start:
        """Everything the adaptation begins with; adaptations and the self-test share it."""
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
            tensors=self._first_tensors(labels, examples, recipe, begin),
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

    def start_adapter(self, labels: Sequence[str]) -> Adapter:
        """Make the adapter of a label set without any training."""
        tensors = _moved(label_tensors(self._phase, self.base, labels), _CPU)
        return Adapter(tensors, tuple(labels), "start", self.digest)

    def checked(self, adapter: Adapter) -> Adapter:
        """Return the adapter if it fits this base (else WeightsError)."""
        check_fits(adapter, self.digest, self.template, self.task.head)
        return adapter

    def _first_tensors(
        self,
        labels: Sequence[str],
        examples: Sequence[Example],
        recipe: Recipe,
        begin: Adapter | None,
    ) -> dict[str, Tensor]:
        fresh = partial(label_tensors, self._phase, self.base, labels, examples)
        if begin is None:
            return start_tensors(self.template, self.task, recipe) | fresh()
        tensors = going_on(self.checked(begin), labels, fresh, self.task.head)
        return _moved(tensors, self.precision.device)

    def _serve(self, query: Query) -> Served:
        adapter, labels = query.adapter, query.labels
        if adapter is None:
            key = f"{query.owner}/start/{tuple(labels)!r}"
            return self.served.get(key, lambda: self.start_adapter(labels))
        return self.served.get(f"{query.owner}/{adapter.id}", lambda: self.checked(adapter))

    def _check_base(self) -> None:
        changes = self.census.changes(self.base)
        if changes:
            self.damage = tuple(changes)
            self._refuse_when_damaged()

    def _refuse_when_damaged(self) -> None:
        if self.damage:
            raise UnavailableError(
                f"the base model changed: {'; '.join(self.damage[:5])}. No answer of this process "
                "can be trusted; restart it, and let the model write to nothing but itself."
            )


def _share_of(device: torch.device) -> int:
    return device_memory(device) // _DEVICE_SHARE


def _materialize(base: nn.Module, task: Task, precision: Precision) -> None:
    """Let lazy layers draw their shapes from one forward."""
    probe = task.probe()
    batch = on_device(task.encode([e.input for e in probe]), precision.device)
    labels = task.labels(probe)
    run_inference(task.predict, base, precision, "no_grad", batch, labels, task.options)


def _moved(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}
