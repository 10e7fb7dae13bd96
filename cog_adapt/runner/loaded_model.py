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
from cog_adapt.runner.first_tensors import going_on, labels_to_learn
from cog_adapt.runner.inference import (
    Phase,
    Query,
    Served,
    ServedAdapters,
    generate_pieces,
    options_of,
    predict_batch,
)
from cog_adapt.runner.label_tensors import finished, label_tensors
from cog_adapt.runner.methods import automatic_learning_rate, resolve, start_tensors
from cog_adapt.runner.modes import run_inference, run_setup
from cog_adapt.runner.replicas import freeze, make_template
from cog_adapt.runner.report import AdaptationReport, Step
from cog_adapt.runner.start import Start
from cog_adapt.runner.task import Task, load_module, on_device
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
        self.base, self.precision, self.healed = _load(task, settings)
        freeze(self.base)
        self.template = make_template(self.base)
        self.census = Census.of(self.base)
        self.digest = base_digest(dict(self.base.named_parameters()))
        self.served = _served(self.template, self.precision, settings)
        self.damage: tuple[str, ...] = ()
        self._phase = Phase(task, self.precision, settings.serve_mode)

    def predicting(self, query: Query) -> Generator[None, None, list[Any]]:
        """Answer inputs, a batch a tick."""
        self._refuse_when_damaged()
        options = options_of(self.task, query)
        predictions: list[Any] = []
        for first in range(0, len(query.inputs), self.batch_size):
            batch = query.inputs[first : first + self.batch_size]
            served = yield from self._serving(query)
            predictions += predict_batch(self._phase, served, batch, options)
            if first + self.batch_size < len(query.inputs):
                yield None
        return predictions

    def generating(self, query: Query) -> Generator[Any, None, None]:
        """Stream the answer to inputs, a piece a tick."""
        self._refuse_when_damaged()
        options = options_of(self.task, query)
        served = yield from self._serving(query)
        yield from generate_pieces(self._phase, served, query.inputs, options)

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
            start = yield from self.starting(examples, recipe, begin, checkpoints)
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

    def starting_adapter(self, labels: Sequence[str]) -> Generator[None, None, Adapter]:
        """Make the adapter of a label set without any training, some labels a tick."""
        tensors = yield from label_tensors(self._phase, self.base, self.batch_size, labels)
        return Adapter(_moved(tensors, _CPU), tuple(labels), "start", self.digest)

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
    ) -> Generator[None, None, dict[str, Tensor]]:
        fresh = partial(label_tensors, self._phase, self.base, self.batch_size, labels, examples)
        if begin is None:
            own = start_tensors(self.template, self.task, recipe)
            return own | (yield from fresh())
        tensors = yield from going_on(self.checked(begin), labels, fresh, self.task.head)
        return _moved(tensors, self.precision.device)

    def _serving(self, query: Query) -> Generator[None, None, Served]:
        adapter, labels = query.adapter, query.labels
        if adapter is not None:
            return self.served.get(f"{query.owner}/{adapter.id}", lambda: self.checked(adapter))
        key = f"{query.owner}/start/{tuple(labels)!r}"
        if key not in self.served:
            made = yield from self.starting_adapter(labels)
            return self.served.get(key, lambda: made)
        return self.served.get(key, lambda: finished(self.starting_adapter(labels)))

    def _check_base(self) -> None:
        if changes := self.census.changes(self.base):
            self.damage = tuple(changes)
            self._refuse_when_damaged()

    def _refuse_when_damaged(self) -> None:
        if self.damage:
            raise UnavailableError(
                f"the base model changed: {'; '.join(self.damage[:5])}. No answer of this process "
                "can be trusted; restart it, and let the model write to nothing but itself."
            )


def _served(template: nn.Module, precision: Precision, settings: RunnerSettings) -> ServedAdapters:
    most_bytes = settings.served_adapter_bytes or device_memory(precision.device) // _DEVICE_SHARE
    return ServedAdapters(template, precision, settings.served_adapters, most_bytes)


def _load(task: Task, settings: RunnerSettings) -> tuple[nn.Module, Precision, list[str]]:
    """Load the base; return it with its precision, and the tensors that had to be copied."""
    precision = choose_precision(settings)
    base = run_setup(load_module, task)
    healed = heal(base)
    if healed:
        logger.warning("tensors born in inference mode were copied: %s", healed)
    base = run_setup(base.to, precision.device)
    precision = fit_weights(precision, base, settings.precision)
    if any(is_lazy(parameter) for parameter in base.parameters()):
        _materialize(base, task, precision)
    return base, precision, healed


def _materialize(base: nn.Module, task: Task, precision: Precision) -> None:
    """Let lazy layers draw their shapes from one forward."""
    probe = task.probe()
    batch = on_device(task.encode([e.input for e in probe]), precision.device)
    labels = task.labels(probe)
    run_inference(task.predict, base, precision, "no_grad", batch, labels, task.options)


def _moved(tensors: Mapping[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    return {name: tensor.to(device) for name, tensor in tensors.items()}
