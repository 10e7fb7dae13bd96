"""Runs a batch of texts in groups of similar length; knows which examples a call is about.

Half of a mixed batch is padding. Groups, each padded to its own longest text, give the same numbers
for less work on a CPU; on a GPU one wide batch is faster. While a batch of an adaptation runs, the
positions of its examples follow its rows here, so that what is kept for an example is found again.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from cog_adapt.runner.task import Batch

_MASK = "attention_mask"
_positions: ContextVar[tuple[int, ...]] = ContextVar("positions", default=())


@contextmanager
def examples_of_batch(positions: Sequence[int]) -> Iterator[None]:
    """Say which examples the rows of the batch are that runs inside."""
    token = _positions.set(tuple(positions))
    try:
        yield
    finally:
        _positions.reset(token)


def positions_now() -> tuple[int, ...]:
    """Return the positions of the examples whose rows run now; () outside an adaptation."""
    return _positions.get()


def in_length_groups(function: Callable[[Batch], Tensor], batch: Batch, groups: int = 4) -> Tensor:
    """Call `function` on a batch's rows in groups of similar length; return (N, ...) in row order.

    Args:
        function: maps a batch of some rows to a tensor with a row for each.
        batch: tensors (N, T) that are padded on the right, with an `attention_mask`.
        groups: how many; a batch of fewer than two rows a group, or on a GPU, runs whole.
    """
    mask = batch[_MASK]
    if mask.device.type != "cpu" or len(mask) < 2 * groups:
        return function(batch)
    lengths = mask.sum(1)
    order = lengths.argsort(stable=True)
    rows = []
    for group in order.tensor_split(groups):
        part = {name: tensor[group, : int(lengths[group[-1]])] for name, tensor in batch.items()}
        with examples_of_batch(_chosen(group)):
            rows.append(function(part))
    return torch.cat(rows)[order.argsort()]


def _chosen(group: Tensor) -> tuple[int, ...]:
    now = positions_now()
    return tuple(now[row] for row in group.tolist()) if now else ()
