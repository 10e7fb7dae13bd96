"""Central differences: compares the loss's change along a direction with the gradient's prediction.

The step size follows from the loss, not from the weights: the predicted change is 1e-3 of the
loss, then a quarter of that, then 1e-2. A gradient counts as wrong only if every step disagrees
with it and the first two agree with each other: the error of a kink or of curvature shrinks with
the step, whereas a wrong gradient is wrong by the same factor at each. A rough loss proves
nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cog_adapt.runner.gradients.noise import noise, spread, tiled

Forward = Callable[[], float]


@dataclass(frozen=True)
class Limits:
    """The errors that are allowed.

    Attributes:
        whole: relative error allowed for all parameters together.
        block: relative error allowed for the parameters of one block.
        noise: relative noise of one loss.
        rough: step sizes may disagree with each other up to this relative error.
    """

    whole: float
    block: float
    noise: float
    rough: float
    changes: tuple[float, ...] = (1e-3, 2.5e-4, 1e-2)


FLOAT32 = Limits(whole=0.003, block=0.003, noise=3e-7, rough=0.05)
SIXTEEN_BIT = Limits(whole=0.10, block=0.30, noise=2e-3, rough=0.5, changes=(1e-2, 3e-2, 6e-2))

_MOST_MOVE = 0.05  # of the weights' norm, at the largest change
_AGREEMENT = 0.25  # of their distance from the gradient
_MANY_ENTRIES = 4_194_304
_FEW_ENTRIES = 65_536
_MOST_ENTRIES = 262_144  # of one tensor, when zero entries are moved


@dataclass(frozen=True)
class Slope:
    """A predicted and a measured change of the loss, and how far noise may move them apart."""

    predicted: float
    measured: float
    noise: float

    @property
    def error(self) -> float:
        """The relative error."""
        apart = abs(self.measured - self.predicted)
        return apart / max(abs(self.predicted), abs(self.measured), 1e-300)

    def fits(self, limit: float) -> bool:
        """Return whether the error is below a limit, or noise explains it."""
        return self.error <= limit or abs(self.measured - self.predicted) <= self.noise

    @property
    def is_noise(self) -> bool:
        """Whether noise would hide a gradient that is wrong by half."""
        return self.predicted < 2 * self.noise

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured / self.predicted if self.predicted else math.inf


@dataclass(frozen=True)
class Verdict:
    """The joint result of the slopes at several step sizes.

    Attributes:
        error: the smallest relative error; 0 where the noise is larger than the limit.
        wrong: whether the gradient is proven wrong.
        rough: whether no two step sizes agree, so that nothing is proven.
        ratio: measured over predicted change, if the gradient is wrong.
        predicted: the predicted change that agreed with the measured one.
        noise: how far noise may have moved the two apart.
    """

    error: float
    wrong: bool = False
    rough: bool = False
    ratio: float = 1.0
    predicted: float = 0.0
    noise: float = 0.0


def compare(  # noqa: PLR0913 - what to move, along what, and how far off it may be
    forward: Forward,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor],
    limit: float,
    limits: Limits,
    *,
    loss: float,
    bent: bool = False,
) -> Verdict:
    """Move `tensors` along their gradients, both ways, and compare the loss's change.

    Args:
        forward: computes the loss at the tensors' present values.
        tensors: float tensors without a graph; left as they were except for rounding.
        gradients: the tensors' gradients, from backward.
        limit: the relative error allowed.
        limits: the noise and the step sizes.
        loss: the loss at the start.
        bent: move along sign(g) sqrt|g| instead of g. A gradient that lost a part orthogonal to
            the rest is right along itself, and wrong along this direction.
    """
    directions = [_bend(g) for g in gradients] if bent else list(gradients)
    slope = sum(_dot(g, d) for g, d in zip(gradients, directions, strict=True))
    if slope <= 0 or not math.isfinite(slope):
        return Verdict(0.0)  # nothing to measure
    reach = _norm(tensors) / _norm(directions)
    slopes: list[Slope] = []
    for change in limits.changes:
        largest = _MOST_MOVE * change / max(limits.changes) * reach
        size = min(change * max(abs(loss), 1e-30) / slope, largest or math.inf)
        measured = central_change(forward, tensors, directions, size)
        slopes.append(Slope(2 * size * slope, measured, 4 * limits.noise * abs(loss)))
        if slopes[-1].fits(limit) and not slopes[-1].is_noise:
            return _agreement(slopes[-1], limit)
    if any(each.fits(limit) for each in slopes):
        return _agreement(max(slopes, key=lambda s: s.predicted if s.fits(limit) else 0.0), limit)
    best = min(slopes, key=lambda s: s.error)
    if _agree(slopes[0], slopes[1]):
        return Verdict(best.error, wrong=True, ratio=slopes[0].ratio)
    return Verdict(best.error, rough=best.error > limits.rough)


def _agreement(slope: Slope, limit: float) -> Verdict:
    error = slope.error if slope.error <= limit else 0.0
    return Verdict(error, predicted=slope.predicted, noise=slope.noise)


def _agree(one: Slope, other: Slope) -> bool:
    """Return whether two measured slopes are so alike that the gradient must be wrong.

    The effect of curvature, kinks or noise on a difference changes with the step; a wrong gradient
    is wrong by the same factor at every step.
    """
    off = min(abs(one.ratio - 1), abs(other.ratio - 1))
    alike = max(off, 0.5 * max(abs(one.ratio), abs(other.ratio)) if off > 0.5 else 0.0)
    return abs(one.ratio - other.ratio) <= _AGREEMENT * alike


def central_change(
    forward: Forward, tensors: Sequence[Tensor], directions: Sequence[Tensor], size: float
) -> float:
    """Return loss(w + size d) - loss(w - size d), and move the tensors back."""
    move(tensors, directions, size)
    above = forward()
    move(tensors, directions, -2 * size)
    below = forward()
    move(tensors, directions, size)
    return above - below


def move(tensors: Sequence[Tensor], directions: Sequence[Tensor], size: float) -> None:
    """Add `size` times the directions in place."""
    torch._foreach_add_(list(tensors), list(directions), alpha=size)


def zero_entries(
    tensors: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[list[Tensor], list[Tensor]]:
    """Return views of the tensors, and a direction that moves just the entries without gradient.

    In a large tensor, the direction moves a sample of rows.
    """
    views, directions = [], []
    for number, (tensor, gradient) in enumerate(zip(tensors, gradients, strict=True)):
        stride = max(1, tensor.numel() // _MOST_ENTRIES)
        rows = slice(None, None, stride) if tensor.dim() else ...
        view, zeros = tensor[rows], gradient[rows] == 0
        if not bool(zeros.any()):
            continue
        views.append(view)
        directions.append(tiled(view, number) * spread(view) * zeros)
    return views, directions


def depends_linearly(
    forward: Forward,
    tensors: Sequence[Tensor],
    directions: Sequence[Tensor],
    noise_level: float,
) -> bool:
    """Return whether the loss changes along the directions in proportion to the step.

    The effect of a kink that a step crosses by chance, or of mere curvature, grows faster.
    """
    small = central_change(forward, tensors, directions, 2e-3)
    if abs(small) <= 30 * noise_level:
        return False
    large = central_change(forward, tensors, directions, 8e-3)
    return 2.8 <= large / small <= 5.6


def _bend(gradient: Tensor) -> Tensor:
    """Return sign(g) sqrt|g|; in a small tensor, add as much noise of one sign where g is not 0.

    The sign is that of the sum, which reveals a gradient that lost its mean.
    """
    if gradient.numel() > _MANY_ENTRIES:  # too slow, and what is lost in one shows in its block
        return gradient / gradient.abs().max().sqrt()
    bent = gradient.sign() * gradient.abs().sqrt()
    if 1 < gradient.numel() <= _FEW_ENTRIES:
        row = noise(gradient.numel(), 7, gradient).abs().view(gradient.shape)
        sign = -1.0 if float(gradient.sum()) < 0 else 1.0
        bent += row * sign * bent.square().mean().sqrt() * (gradient != 0)
    return bent


def share(gradient: Tensor) -> float:
    """Return the part of a tensor in the slope along the bent gradients."""
    return abs(_dot(gradient, _bend(gradient)))


def _dot(one: Tensor, other: Tensor) -> float:
    return float(torch.dot(one.reshape(-1), other.reshape(-1)))


def _norm(tensors: Sequence[Tensor]) -> float:
    return float(torch.stack(torch._foreach_norm(list(tensors))).double().norm())
