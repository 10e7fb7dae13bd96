"""Cuts the batch of a step into parts, each a tick of its own, and bounds the size of a part.

The cut follows from the rows' sizes and the limit alone, never from a clock: equal requests give
equal bits. Rows of like length go together, which saves padding. MiniLM, LoRA on all blocks: a step
of 32 glosses is four parts, each of 0.11 s of CPU time, on loaded cores.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from cog_adapt.runner.adaptation.report import Step
from cog_adapt.runner.task.decoding import encoded
from cog_adapt.runner.task.task import Batch, Task
from gradient_check.phases.replicas import weights_buffers

_TOKENS = 192  # tokens of a part on a CPU
_TOKENS_ELSEWHERE = 16_384  # more shapes slow a GPU down, and 32 long texts take it less than 75 ms
FORWARD_ALONE = 2.0  # a forward alone takes as long as a forward with a backward of half the tokens
# share of the tokens: gradients of all weights are a third product in each layer
ALL_WEIGHTS = 2 / 3
# numbers that count as a token in a row without a mask: two 224 x 224 pictures have 148
_NUMBERS_A_TOKEN = 2_048
_MASK = "attention_mask"


@dataclass
class PartLimit:
    """The limit on a part's size; the limit is halved once if memory runs out.

    All runs of an adaptation, of folds and of all examples, share one limit.

    Args:
        tokens: the number of tokens that a part may hold, padding included.
        halve_at: the step, counted from 1, before which a replay halves the limit, as the replayed
            adaptation did; None: a replay halves nothing.

    Attributes:
        steps: the steps taken, in all runs.
        halved_at: the step in which memory ran out; None: memory sufficed.
        halved_to: the number of tokens since `halved_at`, whatever is frozen.
        rows_are_independent: whether a row's loss is the same in any batch; None until a step has
            shown this.
    """

    tokens: int = _TOKENS_ELSEWHERE
    halve_at: int | None = None
    steps: int = 0
    halved_at: int | None = None
    halved_to: int = 0
    rows_are_independent: bool | None = None

    def of(self, relief: float) -> int:
        """Return the tokens of a part if a token costs only `1 / relief` of a full one."""
        tokens = int(self.tokens * relief)
        return min(tokens, self.halved_to) if self.halved_to else tokens

    def halve(self, largest: int) -> None:
        """Allow half of the tokens of the largest part from the next step on."""
        self.halved_at = self.steps + 1
        self.halved_to = max(1, largest // 2)

    def go_on(self, steps: Sequence[Step]) -> None:
        """Continue after these steps of the same adaptation."""
        self.steps = len(steps)
        for step in steps:
            if step.halved_to:
                self.halved_at = step.number
                self.halved_to = step.halved_to

    def go_back(self, steps: int) -> None:
        """Forget the steps after the first `steps`, which are taken again."""
        self.steps = steps
        if self.halved_at is not None and self.halved_at > steps:
            self.halved_at = None
            self.halved_to = 0

    @property
    def is_due(self) -> bool:
        """Whether the replayed adaptation halved the limit before the next step."""
        return self.halved_at is None and self.halve_at == self.steps + 1


def limit_for(task: Task, device: torch.device, halve_at: int | None = None) -> PartLimit:
    """Return the limit of an adaptation on a device: the task's own, or the device's default."""
    usual = _TOKENS if device.type == "cpu" else _TOKENS_ELSEWHERE
    return PartLimit(task.part_tokens or usual, halve_at)


def cost_of(row: Batch) -> int:
    """Return the number of tokens of a row (without a batch axis).

    Without an attention mask, `_NUMBERS_A_TOKEN` numbers count as one token.
    """
    mask = row.get(_MASK)
    if mask is not None:
        return max(1, int(mask.sum()))
    return -(-sum(tensor.numel() for tensor in row.values()) // _NUMBERS_A_TOKEN) or 1


def cut(costs: Sequence[int], limit: int, size: Callable[[Sequence[int]], int]) -> list[list[int]]:
    """Cut rows into parts whose size is at most the limit; a longer row is a part of its own.

    A batch that fits is one part in its own order; else parts go from short rows to long ones.
    """
    if size(costs) <= limit:
        return [[*range(len(costs))]]
    parts: list[list[int]] = []
    for row in sorted(range(len(costs)), key=costs.__getitem__):
        joined = [*(parts[-1] if parts else ()), row]
        if parts and size([costs[each] for each in joined]) <= limit:
            parts[-1].append(row)
        else:
            parts.append([row])
    return parts


def forward_groups(task: Task, batch: Batch, device: torch.device) -> list[list[int]]:
    """Cut the rows of an encoded batch into parts for forwards alone; return their positions."""
    counts = len(next(iter(batch.values())))
    costs = [
        cost_of({name: tensor[row] for name, tensor in batch.items()}) for row in range(counts)
    ]
    limit = limit_for(task, device).of(FORWARD_ALONE)
    return cut(costs, limit, lambda some: len(some) * max(some, default=0))


def rows_of_group(task: Task, batch: Batch, inputs: Sequence[Any], group: Sequence[int]) -> Batch:
    """Return some rows of an encoded batch, padded to the longest of them.

    Args:
        task: encodes the rows anew if a mask says that they may be shorter.
        batch: of all inputs.
        inputs: of the batch.
        group: positions of the rows.
    """
    if len(group) == len(inputs):
        return batch
    if _MASK in batch:
        return encoded(task, [inputs[row] for row in group])
    return {name: tensor[list(group)] for name, tensor in batch.items()}


def mixes_rows(replica: nn.Module, training: Collection[str]) -> bool:
    """Return whether a layer of a replica sees all rows at once, or changes with each forward.

    That is a BatchNorm that uses the batch's statistics, or a parametrization whose state (spectral
    norm) changes in a training forward.
    """
    moving = any(name.rpartition(".")[0] in training for name in weights_buffers(replica))
    return moving or any(
        isinstance(part, _BatchNorm) and (name in training or part.running_mean is None)
        for name, part in replica.named_modules()
    )
