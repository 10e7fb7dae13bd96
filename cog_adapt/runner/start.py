"""What an adaptation begins with; the self-test begins with the same."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from cog_adapt.runner.config import Precision, Recipe
from cog_adapt.runner.examples import Example
from cog_adapt.runner.gradient_step import MakeOptimizer
from cog_adapt.runner.task import Batch, Task, on_device
from cog_adapt.runner.training_state import TrainingState


@dataclass(frozen=True)
class Start:
    """Everything an adaptation begins with.

    Attributes:
        tensors: what is trained, at its first values, on the device.
        labels: the label set of `examples`.
        learning_rate: the peak rate; it falls linearly to zero at `recipe.max_steps`.
        resume: the state of an earlier run of the same start, or None.
        scales: of LoRA pairs, by layer, where they are not `lora.SCALE`.
        keep: called with the state after every step that `keep_every` divides.
    """

    task: Task
    template: nn.Module
    tensors: Mapping[str, Tensor]
    labels: Sequence[str]
    examples: Sequence[Example]
    recipe: Recipe
    precision: Precision
    learning_rate: float
    resume: TrainingState | None = None
    keep: Callable[[TrainingState], None] | None = None
    keep_every: int = 50
    scales: Mapping[str, float] = field(default_factory=dict)


def adamw(recipe: Recipe, learning_rate: float) -> MakeOptimizer:
    """AdamW as every adaptation and the self-test build it."""

    def make(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            parameters, lr=learning_rate, weight_decay=recipe.weight_decay, fused=True
        )

    return make


def encode_examples(
    task: Task, examples: Sequence[Example], labels: Sequence[str], device: torch.device
) -> tuple[Batch, Tensor]:
    """Return the batch and the targets of some examples, on `device`."""
    batch = on_device(task.encode([e.input for e in examples]), device)
    targets = task.encode_targets([e.target for e in examples], labels)
    return batch, targets.to(device)


def example_loss(task: Task) -> Callable[[nn.Module, tuple[Batch, Tensor]], Tensor]:
    """Return the task's per-example loss as a function of the module and one batch."""
    return lambda module, pair: task.loss(module, *pair)
