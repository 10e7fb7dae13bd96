"""The facts of a gradient, taken on arrival; gradients that are dropped at once keep them."""

import math
from typing import NamedTuple

import torch
from torch import Tensor


class GradientFacts(NamedTuple):
    """The facts of one gradient.

    A norm may overflow although every value is finite, or round to 0 although a value differs from
    0.

    Attributes:
        norm: the norm of the gradient.
        is_finite: whether every value is finite.
        is_empty: whether there are values, and all values are 0.
        has_zeros: whether some values are 0.
    """

    norm: float
    is_finite: bool
    is_empty: bool
    has_zeros: bool

    @classmethod
    def of(cls, gradient: Tensor) -> "GradientFacts":
        """Take the facts of a gradient, which may be sparse."""
        dense = gradient.to_dense()
        norm = float(torch._foreach_norm([dense])[0])
        filled = int(torch.count_nonzero(dense))
        is_finite = math.isfinite(norm) or bool(torch.isfinite(dense).all())
        is_empty = filled == 0 and dense.numel() > 0
        return cls(norm, is_finite, is_empty, filled < dense.numel())
