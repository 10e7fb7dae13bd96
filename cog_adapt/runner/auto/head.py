"""The head of a model: its tensors, its inputs, its outputs.

A head is one linear layer, whose weight has a column for each feature. This module takes no steps.
"""

import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from cog_adapt.runner.adaptation.step_parts import forward_groups, rows_of_group
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import AdaptationError, InputError
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.inference.answers import Phase
from cog_adapt.runner.modules.row_noise import drawing_by_row
from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.input_sizes import portions
from cog_adapt.runner.task.task import Batch, Task, on_device
from gradient_check.phases.memory import free_cache, is_out_of_memory
from gradient_check.phases.modes import run_inference
from gradient_check.phases.randomness import seeded

_SEED = 0
_KEPT_AT_ONCE = 256  # inputs in a tick; their digests and copies take 7 ms


@dataclass(frozen=True)
class HeadNames:
    """The names of a head's layer and tensors; a layer without a bias has none."""

    layer: str
    weight: str
    bias: str | None

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], width: int) -> "HeadNames | None":
        """Find the one matrix with `width` columns; None if there is none, or several."""
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
        """Return the head's tensors by name, without a bias if the layer has none."""
        bias = {self.bias: head.bias} if self.bias else {}
        return {self.weight: head.weight, **bias}


class FeatureLookup(Protocol):
    """Features of inputs that were seen before, in batches of other inputs.

    Attributes:
        found: the number of inputs that had features.
    """

    found: int

    def get(self, inputs: Sequence[Any]) -> Sequence[Tensor | None]:
        """Return each input's row (D,), or None."""

    def put(self, inputs: Sequence[Any], rows: Sequence[Tensor]) -> None:
        """Store each input's row."""


def features_of(  # noqa: PLR0913 - the model, what to look at, and until when
    phase: Phase,
    module: nn.Module,
    inputs: Sequence[Any],
    size: int,
    kept: FeatureLookup | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> Generator[None, None, Tensor | None]:
    """Compute the features (N, D) of inputs; None if the task has none.

    Only rows outside the cache are computed, a part of a batch a tick. After `is_over`, no further
    batch is begun: the result has the features of the first inputs, one batch at least.
    """
    rows = (yield from _known(inputs, kept)) if kept else [None] * len(inputs)
    missing = [place for place, row in enumerate(rows) if row is None]
    if missing:
        unseen = [inputs[place] for place in missing]
        computed = yield from _computed(
            phase, module=module, inputs=unseen, size=size, is_over=is_over
        )
        if computed is None:
            return None
        if kept:
            yield from _keep(unseen[: len(computed)], computed, kept)
        for place, row in zip(missing, computed, strict=False):
            rows[place] = row
        missing = missing[len(computed) :]
    end = missing[0] if missing else len(rows)
    return torch.stack([row for row in rows[:end] if row is not None])


def _known(
    inputs: Sequence[Any], kept: FeatureLookup
) -> Generator[None, None, list[Tensor | None]]:
    """Look up the rows of inputs that were seen before, some inputs a tick."""
    rows: list[Tensor | None] = []
    for place in _some_at_once(inputs):
        if rows:
            yield None
        rows += kept.get(inputs[place])
    return rows


def _keep(
    inputs: Sequence[Any], computed: Tensor, kept: FeatureLookup
) -> Generator[None, None, None]:
    """Store computed rows, some a tick."""
    for place in _some_at_once(inputs):
        kept.put(inputs[place], list(computed[place]))
        yield None


def _some_at_once(inputs: Sequence[Any]) -> Iterator[slice]:
    return (slice(first, first + _KEPT_AT_ONCE) for first in range(0, len(inputs), _KEPT_AT_ONCE))


def _computed(
    phase: Phase, module: nn.Module, inputs: Sequence[Any], size: int, is_over: Callable[[], bool]
) -> Generator[None, None, Tensor | None]:
    """Compute features of the first inputs, until `is_over`.

    Raises:
        InputError: the task returns other shapes.
        AdaptationError: a value is not finite.
    """
    rows: dict[int, Tensor] = {}
    compute = partial(_of_batch, phase, module)
    for positions, batch in _parts(phase, inputs=inputs, size=size, is_over=is_over):
        part = _in_halves(compute, batch=batch, rows=len(positions), device=phase.precision.device)
        if part is None:
            return None
        if part.dim() != 2 or len(part) != len(positions):
            raise InputError(
                f"{type(phase.task).__name__}.features gives {tuple(part.shape)} for "
                f"{len(positions)} inputs; it must give a row of numbers for each. Correct the "
                "task."
            )
        rows |= zip(positions, part.float().cpu(), strict=True)
        yield None
    features = torch.stack([rows[position] for position in range(len(rows))])
    if not bool(torch.isfinite(features).all()):
        raise AdaptationError(
            f"{type(phase.task).__name__}.features gives values that are not finite. Look for a "
            "division, logarithm or root of zero in the model, or choose another method."
        )
    return features


def _parts(
    phase: Phase, inputs: Sequence[Any], size: int, is_over: Callable[[], bool] = lambda: False
) -> Iterator[tuple[list[int], Batch]]:
    """Encode inputs, and cut them into parts that fit into a tick; yield their positions too.

    The cut depends on the inputs alone: equal inputs give equal bits. After `is_over` it ends with
    a whole portion, after `size` inputs at the earliest.
    """
    device = phase.precision.device
    for place in portions(inputs, size):
        if place.start >= size and is_over():
            return
        some = inputs[place]
        batch = encoded(phase.task, some)
        for group in forward_groups(phase.task, batch, device):
            part = rows_of_group(phase.task, batch=batch, inputs=some, group=group)
            yield [place.start + row for row in group], part


def _of_batch(phase: Phase, module: nn.Module, batch: Batch) -> Tensor | None:
    batch = on_device(batch, phase.precision.device)
    return run_inference(_features, module, phase.precision, phase.serve_mode, phase.task, batch)


def _in_halves(
    compute: Callable[[Batch], Tensor | None], batch: Batch, rows: int, device: torch.device
) -> Tensor | None:
    """Compute features of a batch; if memory runs out, of each half of it."""
    try:
        return compute(batch)
    except (RuntimeError, MemoryError) as error:
        if rows == 1 or not is_out_of_memory(error):
            raise
        traceback.clear_frames(error.__traceback__)  # the frames' locals keep activations alive
    free_cache(device)
    middle = (rows + 1) // 2
    halves = [
        compute({name: tensor[half] for name, tensor in batch.items()})
        for half in (slice(middle), slice(middle, None))
    ]
    found = [half for half in halves if half is not None]
    return torch.cat(found) if found else None


def outputs_of(  # noqa: PLR0913 - the model, where to look, and what at
    phase: Phase, module: nn.Module, layer: str, rows: Sequence[Example], targets: Tensor, size: int
) -> Generator[None, None, tuple[Tensor, Tensor]]:
    """Compute the head's outputs (N, K) for examples, and their losses (N,), a tick for each part.

    The task's own loss runs the model; a hook on the head's layer reads the layer's output. If this
    output does not have one row for each example, the returned outputs have the shape (0, 0).

    Args:
        phase: how inference runs.
        module: a private replica.
        layer: the path of the head.
        rows: the examples.
        targets: the targets of the examples, (N, ...).
        size: the number of examples encoded at once.
    """
    found: dict[int, tuple[Tensor, Tensor]] = {}
    for positions, batch in _parts(phase, [row.input for row in rows], size):
        outputs, losses = _outputs_and_losses(
            phase,
            module=module,
            layer=layer,
            batch=batch,
            targets=targets[positions],
            positions=positions,
        )
        if len(outputs) != len(positions):
            return torch.zeros(0, 0), losses
        found |= zip(positions, zip(outputs, losses, strict=True), strict=True)
        yield None
    every = [found[position] for position in range(len(rows))]
    return torch.stack([outputs for outputs, _ in every]), torch.stack([loss for _, loss in every])


def _outputs_and_losses(  # noqa: PLR0913 - the model, where to look, and a part
    phase: Phase,
    module: nn.Module,
    layer: str,
    batch: Batch,
    targets: Tensor,
    positions: Sequence[int],
) -> tuple[Tensor, Tensor]:
    parts: list[Tensor] = []
    device = phase.precision.device
    handle = module.get_submodule(layer).register_forward_hook(
        lambda _layer, _inputs, outputs: parts.append(outputs)
    )
    try:
        losses = run_inference(
            _loss,
            module,
            phase.precision,
            phase.serve_mode,
            task=phase.task,
            batch=on_device(batch, device),
            targets=targets.to(device),
            positions=positions,
        )
    finally:
        handle.remove()
    if len(parts) != 1:
        return torch.zeros(0, 0), losses.float().cpu()
    return parts[0].float().cpu().clone(), losses.float().cpu()


def _features(module: nn.Module, task: Task, batch: Batch) -> Tensor | None:
    return task.features(module, batch)


def _loss(
    module: nn.Module, task: Task, batch: Batch, targets: Tensor, positions: Sequence[int]
) -> Tensor:
    with seeded(_SEED, targets.device), drawing_by_row(positions):
        return task.loss(module, batch, targets)
