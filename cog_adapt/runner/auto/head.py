"""The head of a model: which tensors it has, what it sees, and what it gives.

A head is one linear layer, whose weight has a column for each feature. This module takes no steps.
"""

import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.devices.device import free_cache, is_out_of_memory
from cog_adapt.runner.devices.randomness import seeded
from cog_adapt.runner.errors import AdaptationError, InputError
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.inference.answers import Phase
from cog_adapt.runner.modes import run_inference
from cog_adapt.runner.modules.row_noise import drawing_by_row
from cog_adapt.runner.task import Batch, Task, on_device

_SEED = 0


@dataclass(frozen=True)
class HeadNames:
    """The names of a head's layer and tensors; a layer without a bias has none."""

    layer: str
    weight: str
    bias: str | None

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], width: int) -> "HeadNames | None":
        """Find the one matrix with `width` columns; None where there is none, or several."""
        found = [name for name, t in tensors.items() if t.dim() == 2 and t.shape[1] == width]
        if len(found) != 1 or not found[0].endswith(".weight"):
            return None
        layer = found[0].removesuffix(".weight")
        bias = f"{layer}.bias"
        return cls(layer, found[0], bias if bias in tensors else None)

    def read(self, tensors: Mapping[str, Tensor]) -> LinearHead:
        """Return the head that the tensors hold, on the CPU."""
        weight = tensors[self.weight].detach().float().cpu()
        none = weight.new_zeros(len(weight))
        bias = tensors[self.bias].detach().float().cpu() if self.bias else none
        return LinearHead(weight, bias)

    def write(self, head: LinearHead) -> dict[str, Tensor]:
        """Return the head's tensors by name; where the layer has no bias, without."""
        bias = {self.bias: head.bias} if self.bias else {}
        return {self.weight: head.weight, **bias}


class KeptFeatures(Protocol):
    """Features of inputs that were seen before, in batches of other inputs.

    Attributes:
        found: how many were.
    """

    found: int

    def get(self, inputs: Sequence[Any]) -> Sequence[Tensor | None]:
        """Return each input's row (D,); None where there is none."""

    def put(self, inputs: Sequence[Any], rows: Sequence[Tensor]) -> None:
        """Keep each input's row."""


def features_of(
    phase: Phase,
    module: nn.Module,
    inputs: Sequence[Any],
    size: int,
    kept: KeptFeatures | None = None,
) -> Generator[None, None, Tensor | None]:
    """Compute the features (N, D) of inputs; None where the task has none.

    What is kept is not computed again; the rest is, a batch a tick.
    """
    rows = list(kept.get(inputs)) if kept else [None] * len(inputs)
    missing = [place for place, row in enumerate(rows) if row is None]
    if missing:
        unseen = [inputs[place] for place in missing]
        computed = yield from _computed(phase, module, unseen, size)
        if computed is None:
            return None
        if kept:
            kept.put(unseen, list(computed))
        for place, row in zip(missing, computed, strict=True):
            rows[place] = row
    return torch.stack([row for row in rows if row is not None])


def _computed(
    phase: Phase, module: nn.Module, inputs: Sequence[Any], size: int
) -> Generator[None, None, Tensor | None]:
    """Compute features.

    Raises:
        InputError: the task gives other shapes.
        AdaptationError: a value is not finite.
    """
    parts: list[Tensor] = []
    for first in range(0, len(inputs), size):
        some = inputs[first : first + size]
        part = _in_halves(partial(_of_batch, phase, module), some, phase.precision.device)
        if part is None:
            return None
        if part.dim() != 2 or len(part) != len(some):
            raise InputError(
                f"{type(phase.task).__name__}.features gives {tuple(part.shape)} for {len(some)} "
                "inputs; it must give a row of numbers for each. Mend the task."
            )
        parts.append(part.float().cpu())
        yield None
    features = torch.cat(parts)
    if not bool(torch.isfinite(features).all()):
        raise AdaptationError(
            f"{type(phase.task).__name__}.features gives values that are not finite. Look for a "
            "division, logarithm or root of zero in the model, or choose another method."
        )
    return features


def _of_batch(phase: Phase, module: nn.Module, some: Sequence[Any]) -> Tensor | None:
    batch = on_device(phase.task.encode(some), phase.precision.device)
    return run_inference(_features, module, phase.precision, phase.serve_mode, phase.task, batch)


def _in_halves(
    compute: Callable[[Sequence[Any]], Tensor | None], some: Sequence[Any], device: torch.device
) -> Tensor | None:
    """Compute features of a batch; where memory runs out, of each half of it."""
    try:
        return compute(some)
    except (RuntimeError, MemoryError) as error:
        if len(some) == 1 or not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # their locals keep activations alive
    free_cache(device)
    middle = (len(some) + 1) // 2
    halves = [compute(some[:middle]), compute(some[middle:])]
    found = [half for half in halves if half is not None]
    return torch.cat(found) if found else None


def outputs_of(  # noqa: PLR0913 - the model, where to look, and what at
    phase: Phase, module: nn.Module, layer: str, rows: Sequence[Example], targets: Tensor, size: int
) -> Generator[None, None, Tensor]:
    """Compute what the head gives for examples, (N, K), a batch a tick.

    Args:
        phase: how inference runs.
        module: a private replica.
        layer: the path of the head.
        rows: the examples.
        targets: theirs, (N, ...).
        size: how many make a batch.
    """
    parts: list[Tensor] = []
    for first in range(0, len(rows), size):
        some = slice(first, first + size)
        outputs, _ = outputs_and_losses(phase, module, layer, rows[some], targets[some])
        parts.append(outputs)
        yield None
    return torch.cat(parts)


def outputs_and_losses(
    phase: Phase, module: nn.Module, layer: str, rows: Sequence[Example], targets: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute what the head gives for a batch of examples, (N, K), and the losses, (N,).

    The task's own loss runs the model; a hook on the head's layer reads what it gives.
    """
    parts: list[Tensor] = []
    device = phase.precision.device
    batch = on_device(phase.task.encode([row.input for row in rows]), device)
    handle = module.get_submodule(layer).register_forward_hook(
        lambda _layer, _inputs, outputs: parts.append(outputs)
    )
    try:
        how = (phase.precision, phase.serve_mode)
        losses = run_inference(_loss, module, *how, phase.task, batch, targets.to(device))
    finally:
        handle.remove()
    if len(parts) != 1 or len(parts[0]) != len(rows):
        return torch.zeros(0, 0), losses.float().cpu()
    return parts[0].float().cpu().clone(), losses.float().cpu()


def _features(module: nn.Module, task: Task, batch: Batch) -> Tensor | None:
    return task.features(module, batch)


def _loss(module: nn.Module, task: Task, batch: Batch, targets: Tensor) -> Tensor:
    with seeded(_SEED, targets.device), drawing_by_row(range(len(targets))):
        return task.loss(module, batch, targets)
