"""Variants of a probe within its own values: more rows, so that rare parts of a module run."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

_MOST_ROWS = 256


def variant(probe: Any, number: int, *, times: int) -> Any:  # noqa: ANN401 - any pytree
    """Return a probe with other rows, with values of, or between, the probe's own.

    Whole numbers are drawn from the range of a tensor's own; floats are mixtures of its rows, with
    noise of its spread, clamped to its range; a constant tensor is unchanged.

    Args:
        probe: tensors whose first dimension is the rows; other leaves are unchanged.
        number: of the variant; equal numbers give equal variants.
        times: repetitions of the rows, up to 256 rows.
    """
    generator = torch.Generator().manual_seed(number)
    tensors = [leaf for leaf in tree_leaves(probe) if isinstance(leaf, Tensor) and leaf.dim()]
    rows = max((len(tensor) for tensor in tensors), default=0)

    def varied(leaf: Any) -> Any:  # noqa: ANN401 - any leaf
        if not isinstance(leaf, Tensor) or leaf.dim() == 0 or len(leaf) != rows:
            return leaf
        count = max(rows, min(times * rows, _MOST_ROWS))
        repeated = leaf.detach()[torch.arange(count) % rows]
        return _within(repeated, generator)

    return tree_map(varied, probe)


def _within(tensor: Tensor, generator: torch.Generator) -> Tensor:
    """Return other values of a tensor's own range."""
    if tensor.is_complex() or tensor.dtype is torch.bool or not tensor.numel():
        return tensor
    low, high = tensor.min(), tensor.max()
    if not bool(torch.isfinite(low)) or not bool(low < high):
        return tensor
    if tensor.is_floating_point():
        noise = torch.randn(tensor.shape, generator=generator).to(tensor)
        return (tensor + noise * tensor.std()).clamp(low, high)
    drawn = torch.randint(int(low), int(high) + 1, tensor.shape, generator=generator)
    return drawn.to(tensor)
