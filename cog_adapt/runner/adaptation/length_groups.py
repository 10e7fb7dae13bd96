"""Runs a batch of texts in groups of similar length.

Half of a mixed batch is padding. Groups, each padded to its own longest text, give the same numbers
for less work on a CPU; on a GPU one wide batch is faster, and so it is where little is padding:
forward and backward of 16 texts of MiniLM take 129 ms of CPU time in place of 179.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from cog_adapt.runner.modules.batch_rows import batch_rows
from cog_adapt.runner.task.task import Batch

_MASK = "attention_mask"
_LITTLE = 4 / 3  # up to this ratio of padded tokens to tokens a batch stays whole


def in_length_groups(function: Callable[[Batch], Tensor], batch: Batch, groups: int = 4) -> Tensor:
    """Call `function` on a batch's rows in groups of similar length; return (N, ...) in row order.

    Args:
        function: maps a batch of some rows to a tensor with a row for each.
        batch: tensors (N, T) that are padded on the right, with an `attention_mask`.
        groups: their number; a batch of fewer than two rows a group, of like lengths, or on a GPU,
            runs whole.
    """
    mask = batch[_MASK]
    if mask.device.type != "cpu" or len(mask) < 2 * groups:
        return function(batch)
    lengths = mask.sum(1)
    if len(mask) * int(lengths.max()) <= _LITTLE * int(lengths.sum()):
        return function(batch)
    order = lengths.argsort(stable=True)
    rows = []
    for group in order.tensor_split(groups):
        part = {name: tensor[group, : int(lengths[group[-1]])] for name, tensor in batch.items()}
        with batch_rows(group):
            rows.append(function(part))
    return torch.cat(rows)[order.argsort()]
