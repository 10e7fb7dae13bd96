"""The directions of a move of tensors: gradients, plain or bent."""

import math
from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor

from gradient_check.instruments.noise import noise

MANY_ENTRIES = 4_194_304
_FEW_ENTRIES = 65_536
MANY_ROWS = 1_048_576  # counted in entries


class Direction(NamedTuple):
    """The tensor added in a move, times a factor, so a large gradient needs no copy.

    With `rows`, the tensor is added to these rows alone.
    """

    tensor: Tensor
    factor: float = 1.0
    rows: Tensor | None = None


class DirectionKind(Enum):
    """The directions along which a check moves tensors.

    A gradient that lost a part orthogonal to the rest is right along itself, and wrong along the
    bent direction: sign(g) sqrt|g|. A gradient that treats a norm of the values as a constant is
    nearly right along itself, and wrong along the values.
    """

    GRADIENT = "gradient"
    BENT = "bent gradient"
    VALUES = "values"


def along(
    way: DirectionKind, tensors: Sequence[Tensor], gradients: Sequence[Tensor]
) -> list[Direction]:
    """Return the directions of the tensors."""
    if way is DirectionKind.VALUES:
        return scaling(tensors, gradients)
    return [bend(g) if way is DirectionKind.BENT else Direction(g) for g in gradients]


def move(tensors: Sequence[Tensor], directions: Sequence[Direction], size: float) -> None:
    """Add `size` times the directions in place."""
    pairs = list(zip(tensors, directions, strict=True))
    for tensor, each in pairs:
        if each.rows is not None:
            tensor.index_add_(0, each.rows, each.tensor, alpha=size * each.factor)
    pairs = [(tensor, each) for tensor, each in pairs if each.rows is None]
    for factor in {each.factor for _, each in pairs}:
        own = [(tensor, each.tensor) for tensor, each in pairs if each.factor == factor]
        torch._foreach_add_([t for t, _ in own], [d for _, d in own], alpha=size * factor)


def rows_of(gradient: Tensor) -> Tensor | None:
    """Return the rows with a gradient, if these are few rows of a large tensor; else None.

    A probe uses few rows of an embedding table, and a move of MiniLM's whole table takes 40 times
    as long as a move of these rows.
    """
    if gradient.numel() < MANY_ROWS or gradient.dim() < 2 or not gradient.is_contiguous():
        return None
    by_row = gradient.view(len(gradient), -1)
    rows = ((by_row.amax(1) != 0) | (by_row.amin(1) != 0)).nonzero()[:, 0]
    return rows if 4 * len(rows) < len(gradient) else None


def bend(gradient: Tensor) -> Direction:
    """Return sign(g) sqrt|g|; in a small tensor, plus as much noise of one sign where g is not 0.

    The sign is that of the sum, which reveals a gradient that lost its mean.
    """
    # the full form is too slow here, and the tensor's block shows the loss of a mean
    if gradient.numel() > MANY_ENTRIES:
        return Direction(gradient, max(float(gradient.max()), -float(gradient.min())) ** -0.5)
    bent = gradient.abs().sqrt_().copysign_(gradient)
    if 1 < gradient.numel() <= _FEW_ENTRIES:
        row = noise(gradient.numel(), 7, gradient).abs().view(gradient.shape)
        sign = -1.0 if float(gradient.sum()) < 0 else 1.0
        bent += row * sign * bent.square().mean().sqrt() * (gradient != 0)
    return Direction(bent)


def scaling(tensors: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[Direction]:
    """Return the tensors' own values where there is a gradient, signed to raise the loss."""
    values = [_where_not_zero(t, g) for t, g in zip(tensors, gradients, strict=True)]
    sign = -1.0 if sum(map(dot, gradients, values)) < 0 else 1.0
    return [Direction(value, sign) for value in values]


def _where_not_zero(tensor: Tensor, gradient: Tensor) -> Tensor:
    if int(torch.count_nonzero(gradient)) == gradient.numel():  # a mask would take twice as long
        return tensor.clone()
    return tensor * (gradient != 0)


def dot(one: Tensor, other: Tensor) -> float:
    """Return the sum of the products of two tensors' entries."""
    return float(torch.dot(one.reshape(-1), other.reshape(-1)))


def norm(tensors: Sequence[Tensor], factors: Sequence[float] = ()) -> float:
    """Return the norm of tensors together, each times its factor."""
    norms = torch.stack(torch._foreach_norm(list(tensors))).double().tolist()
    return math.hypot(*(n * f for n, f in zip(norms, factors or [1.0] * len(norms), strict=True)))
