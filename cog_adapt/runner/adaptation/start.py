"""The start of an adaptation; the self-test begins with the same."""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.step_parts import PartLimit
from cog_adapt.runner.adaptation.training_state import TrainingState
from cog_adapt.runner.config import Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdaptationError, InputError
from cog_adapt.runner.modules.batch_rows import rows_now
from cog_adapt.runner.modules.row_noise import drawing_by_row
from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.task import Batch, Task, on_device, prepares
from gradient_check.instruments.sources import pass_over
from gradient_check.phases.gradient_step import MakeOptimizer
from gradient_check.phases.modes import run_inference
from gradient_check.phases.precision import Precision
from gradient_check.phases.replicas import serving_replica

pass_over(__file__)  # this file calls the code that a self-test traces

_TINY = torch.finfo(torch.float32).tiny
Keep = Callable[[TrainingState], "Future[None] | None"]
"""Writes a state; the returned function waits for the write, None: it is written already."""


class RowLookup(Protocol):
    """Encoded inputs of recent requests."""

    def get_row(self, value: Any) -> Batch | None:  # noqa: ANN401 - the task's own
        """Return an input's tensors, without a batch axis, or None."""

    def put_row(self, value: Any, row: Batch) -> None:  # noqa: ANN401
        """Store an input's tensors."""


@dataclass(frozen=True, kw_only=True)
class Trainable:
    """The tensors that an adaptation trains, and the module that they belong to.

    Attributes:
        template: the base's structure, with the weights that training leaves unchanged.
        tensors: the trained tensors at their first values, on the device.
        scales: the scales of LoRA pairs that differ from `lora.SCALE`, by layer.
    """

    template: nn.Module
    tensors: Mapping[str, Tensor]
    scales: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class TrainingSet:
    """The examples of an adaptation.

    Attributes:
        labels: the label set of `examples`.
        weights: the weight of each example's loss and score, from 0; a mean over examples is
            then sum(weight * value) / sum(weight). None: equal weights.
        kept_rows: a cache of encoded inputs that outlives this run; None: no cache.
        extra: how many of the last examples the base has made; none of them is held out.
    """

    examples: Sequence[Example]
    labels: Sequence[str]
    weights: Sequence[float] | None = None
    kept_rows: RowLookup | None = None
    extra: int = 0

    def __post_init__(self) -> None:
        """Refuse weights that do not fit the examples (InputError)."""
        weights = self.weights
        if weights is None:
            return
        if len(weights) != len(self.examples):
            raise InputError(
                f"{len(weights)} weights for {len(self.examples)} examples. Give one for each."
            )
        # this form also refuses NaN
        unfit = next((w for w in weights if not 0 <= w < math.inf), None)
        if unfit is not None or not any(weights):
            what = "all 0" if unfit is None else repr(unfit)
            raise InputError(f"a weight is {what}; allowed: finite, from 0, and not all 0.")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """The recipe, the precision and the limits of a training.

    Attributes:
        learning_rate: the peak rate; it falls linearly to zero at `recipe.max_steps`.
        limit: the size of a part of a step; all runs of an adaptation share it.
        compiles: whether the replica's blocks are compiled.
    """

    recipe: Recipe
    precision: Precision
    learning_rate: float
    limit: PartLimit = field(default_factory=PartLimit)
    compiles: bool = False


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """The state that a run resumes from, and the function that stores new states.

    Attributes:
        state: the state of an earlier run of the same start; None: the run begins at step 0.
        keep: a function that is called with the state after every step that `every` divides; the
            future that it returns is done once the state is written. None: no state is stored.
    """

    state: TrainingState | None = None
    keep: Keep | None = None
    every: int = 50


@dataclass(frozen=True, kw_only=True)
class Start:
    """Everything an adaptation begins with.

    Attributes:
        began: the moment the time budget began, by `time.monotonic`; None: the first tick.
    """

    task: Task
    trained: Trainable
    data: TrainingSet
    training: TrainingConfig
    resumption: Resumption = field(default_factory=Resumption)
    began: float | None = None

    def with_examples(self, examples: Sequence[Example]) -> Self:
        """Return a start from other examples, of the same labels."""
        return replace(self, data=replace(self.data, examples=examples))

    def with_kept_rows(self, kept: RowLookup | None) -> Self:
        """Return a start whose encoded inputs are kept."""
        return replace(self, data=replace(self.data, kept_rows=kept))

    def with_recipe(self, recipe: Recipe) -> Self:
        """Return a start by another recipe, at the same rate."""
        return replace(self, training=replace(self.training, recipe=recipe))


@dataclass(frozen=True)
class Checkpoints:
    """The saved states of an adaptation: written as it runs, read when it continues."""

    load: Callable[[], TrainingState | None]
    save: Keep
    every: int

    def added_to(self, start: Start) -> Start:
        """Let a start continue from the saved state, and save its own."""
        resumption = Resumption(state=self.load(), keep=self.save, every=self.every)
        return replace(start, resumption=resumption)


class StepRows(NamedTuple):
    """A step's batch on the device: each tensor has a row for each example.

    Attributes:
        weights: the weight of each example; None: all examples weigh the same.
        positions: the positions of the examples in `TrainingSet.examples`.
        mean_weight: the mean weight of the whole batch that these rows are a part of; None: these
            rows are the whole batch.
        earlier: positions of the rows in earlier parts of the batch.
    """

    batch: Batch
    targets: Tensor
    weights: Tensor | None
    positions: tuple[int, ...]
    mean_weight: Tensor | None = None
    earlier: tuple[int, ...] = ()


FACTOR = "factor"
"""The key of a parameter group's factor of the learning rate."""


def adamw(
    recipe: Recipe,
    learning_rate: float,
    replica: nn.Module | None = None,
    rates: Mapping[str, float] = MappingProxyType({}),
) -> MakeOptimizer:
    """Build AdamW as every adaptation and the self-test use it.

    Args:
        recipe: gives the weight decay.
        learning_rate: of the parameters that no pattern of `rates` matches.
        replica: names its parameters; needed if there are `rates`.
        rates: `Task.rates`; each factor is a parameter group of its own.
    """
    named = () if replica is None else replica.named_parameters()
    factors = {id(parameter): _factor_of(name, rates) for name, parameter in named}

    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        groups: dict[float, list[nn.Parameter]] = {}
        for parameter in parameters:
            groups.setdefault(factors.get(id(parameter), 1.0), []).append(parameter)
        return torch.optim.AdamW(
            [
                {"params": some, "lr": learning_rate * factor, FACTOR: factor}
                for factor, some in groups.items()
            ],
            weight_decay=recipe.weight_decay,
            fused=True,
        )

    return make


def _factor_of(name: str, rates: Mapping[str, float]) -> float:
    return next((rates[pattern] for pattern in rates if re.fullmatch(pattern, name)), 1.0)


def encode_examples(
    task: Task, examples: Sequence[Example], labels: Sequence[str], device: torch.device
) -> tuple[Batch, Tensor]:
    """Return the batch and the targets of some examples, on `device`."""
    batch = on_device(encoded(task, [e.input for e in examples]), device)
    targets = task.encode_targets([e.target for e in examples], labels)
    return batch, targets.to(device)


def prepare_examples(start: Start, examples: Sequence[Example]) -> tuple[Batch, Tensor]:
    """Return the batch and the targets of some examples as the loss gets them, on the device."""
    task, precision = start.task, start.training.precision
    pair = encode_examples(task, examples, start.data.labels, device=precision.device)
    if not prepares(task):
        return pair
    base = serving_replica(start.trained.template, {})
    return widened(run_inference(task.prepare, base, precision, "no_grad", *pair))


def widened(pair: tuple[Batch, Tensor]) -> tuple[Batch, Tensor]:
    """Return float32 for what autocast made of 16 bits: the self-test takes losses without it."""
    batch, targets = pair
    wide = {name: _at_least_float32(tensor) for name, tensor in batch.items()}
    return wide, _at_least_float32(targets)


def _at_least_float32(tensor: Tensor) -> Tensor:
    is_short = tensor.is_floating_point() and tensor.element_size() < torch.float32.itemsize
    return tensor.float() if is_short else tensor


def example_loss(task: Task) -> Callable[[nn.Module, tuple[Batch, Tensor]], Tensor]:
    """Return the task's per-example loss as a function of the module and one batch.

    Its rows are the examples at the positions given by `batch_rows`, or else at 0, 1, …
    """

    def loss(module: nn.Module, pair: tuple[Batch, Tensor]) -> Tensor:
        with drawing_by_row(rows_now() or range(len(pair[1]))):
            return task.loss(module, *pair)

    return loss


def weighted_loss(task: Task) -> Callable[[nn.Module, StepRows], Tensor]:
    """Return `example_loss` for batches with weights (N,): the result's mean is weighted.

    A batch whose weights are all 0 has the loss 0; a batch without weights has the plain losses.
    """

    def loss(module: nn.Module, rows: StepRows) -> Tensor:
        weights = rows.weights
        with drawing_by_row(rows.positions, rows.earlier):
            losses = task.loss(module, rows.batch, rows.targets)
        if weights is None:
            return losses
        if losses.shape != weights.shape:
            raise AdaptationError(
                f"{type(task).__name__}.loss gave shape {tuple(losses.shape)} for {len(weights)} "
                "weighted examples. Return one loss for each, shape (N,)."
            )
        mean = weights.mean() if rows.mean_weight is None else rows.mean_weight
        return losses.float() * (weights / mean.clamp_min(_TINY))

    return loss
