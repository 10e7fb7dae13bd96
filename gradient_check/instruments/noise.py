"""Cheap noise: a short row of normal numbers, tiled over tensors of any size."""

import torch
from torch import Tensor

TILE_LENGTH = 65_537  # a prime, so that tiles do not repeat along rows
_NEARLY_ZERO = 1e-3
_MOST_MEASURED = 4 * TILE_LENGTH


def real(tensor: Tensor) -> Tensor:
    """Return a complex tensor as real numbers, in the same memory if possible."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def spread(tensor: Tensor) -> float:
    """Return the standard deviation; for a constant its magnitude, for zeros, or nearly so, 1.

    A large tensor is sampled.
    """
    if tensor.numel() == 0:
        return 0.0
    if tensor.numel() > _MOST_MEASURED and tensor.is_contiguous():
        # odd, so that it visits all columns of common widths
        stride = tensor.numel() // TILE_LENGTH | 1
        tensor = tensor.view(-1)[::stride]
    mean = abs(float(tensor.mean()))
    deviation = float(tensor.std()) if tensor.numel() > 1 else 0.0
    if deviation > 1e-4 * mean:
        return deviation
    return mean if mean > _NEARLY_ZERO else 1.0


def is_nearly_zero(tensor: Tensor) -> bool:
    """Return whether a tensor is one tiny number, but not 0: a layer's scale at its start, say."""
    if tensor.numel() == 0 or not 0 < abs(float(tensor.flatten()[0])) <= _NEARLY_ZERO:
        return False
    return bool(tensor.min() == tensor.max())


def noise(length: int, seed: int, like: Tensor) -> Tensor:
    """Return at most 65,537 normal numbers, the same for the same seed."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(min(length, TILE_LENGTH), generator=generator).to(like.device, like.dtype)


def tiled(like: Tensor, seed: int) -> Tensor:
    """Return noise of a tensor's shape."""
    row = noise(like.numel(), seed, like)
    repeats = -(-like.numel() // max(row.numel(), 1))
    return row.repeat(repeats)[: like.numel()].view(like.shape)


def add_noise(tensor: Tensor, scale: float, seed: int) -> None:
    """Add noise of standard deviation `scale` in place, without a copy of the tensor."""
    if not tensor.is_contiguous():
        tensor += tiled(tensor, seed) * scale
        return
    row = noise(tensor.numel(), seed, tensor) * scale
    flat = tensor.view(-1)
    whole = flat.numel() // max(row.numel(), 1) * row.numel()
    if whole:
        flat[:whole].view(-1, row.numel()).add_(row)
    flat[whole:].add_(row[: flat.numel() - whole])
