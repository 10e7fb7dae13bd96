"""Central differences: compares the loss's change along a direction with the gradient's prediction.

The step size follows from the loss, not from the weights: the predicted change is 1e-3 of the
loss, then a quarter of that, then 1e-2. A gradient counts as wrong only if every step disagrees
with it and the first two agree with each other. A rough loss proves nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from torch import Tensor

from gradient_check.instruments.directions import (
    Direction,
    DirectionKind,
    along,
    dot,
    move,
    norm,
    rows_of,
)
from gradient_check.instruments.noise import spread, tiled

Forward = Callable[[], float]


@dataclass(frozen=True)
class Limits:
    """The errors that are allowed.

    Attributes:
        whole: relative error allowed for all parameters together.
        block: relative error allowed for the parameters of one block.
        noise: relative noise of one loss.
        rough: relative difference allowed between the results of two step sizes.
        changes: predicted relative changes of the loss, one for each step size.
        tried: the order in which `changes` are tried, until one agrees.
    """

    whole: float
    block: float
    noise: float
    rough: float
    changes: tuple[float, ...] = (1e-3, 2.5e-4, 1e-2)
    tried: tuple[int, ...] = (0, 1, 2)


FLOAT32 = Limits(whole=0.003, block=0.003, noise=3e-7, rough=0.05)
OF_CANCELLED = (1e-3, 5e-4, 2e-3)
"""Changes for a loss whose terms cancel: equal, since even the largest is barely visible."""
SIXTEEN_BIT = Limits(whole=0.10, block=0.30, noise=2e-3, rough=0.5, changes=(1e-2, 3e-2, 6e-2))

_MOST_MOVE = 0.05  # times the weights' norm, for the largest change
_AGREEMENT = 0.25  # share of the differences' distance from the gradient
# share of the change along the slope: a smaller loss is only the rounding of its terms
_CANCELLED = 1e-5
MOST_ENTRIES = 262_144  # moved in one tensor to test entries of gradient 0


@dataclass(frozen=True)
class Slope:
    """A predicted and a measured change of the loss, and the effect of noise on both."""

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
        error: the smallest relative error; 0 if the noise exceeds the limit.
        wrong: whether the gradient is proven wrong.
        rough: whether no two step sizes agree, so that nothing is proven.
        ratio: measured over predicted change, if the gradient is wrong.
        predicted: the predicted change that agreed with the measured one.
        noise: the possible effect of noise on their difference.
        shares: each tensor's part of the predicted slope.
    """

    error: float
    wrong: bool = False
    rough: bool = False
    ratio: float = 1.0
    predicted: float = 0.0
    noise: float = 0.0
    shares: tuple[float, ...] = field(default=(), compare=False)


def compare(  # noqa: PLR0913 - what to move, along what, and how far off it may be
    forward: Forward,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor],
    limit: float,
    limits: Limits,
    *,
    loss: float,
    ways: Sequence[DirectionKind] = (DirectionKind.GRADIENT,),
) -> Verdict:
    """Move `tensors` along each of the directions, both ways, and compare the loss's change.

    Args:
        forward: computes the loss at the tensors' present values.
        tensors: float tensors without a graph; left as they were except for rounding.
        gradients: the tensors' gradients, from backward.
        limit: the relative error allowed.
        limits: the noise and the step sizes.
        loss: the loss at the start.
        ways: taken in turn, until one proves the gradient wrong or the loss rough. The verdict is
            that of the first direction, or of the one that proves it wrong.
    """
    rows = [rows_of(g) for g in gradients]
    kept = [g if r is None else g.index_select(0, r) for g, r in zip(gradients, rows, strict=True)]
    verdict = None
    for way in ways:
        moved = (
            tensors
            if way is not DirectionKind.VALUES
            else [
                t if r is None else t.index_select(0, r) for t, r in zip(tensors, rows, strict=True)
            ]
        )
        placed = zip(along(way, moved, kept), rows, strict=True)
        directions = [direction._replace(rows=r) for direction, r in placed]
        found = _along(forward, tensors, kept, directions, limit, limits, loss)
        verdict = found if verdict is None or found.wrong else verdict
        if found.wrong or found.rough:
            break
    return verdict or Verdict(0.0)


def _along(  # noqa: PLR0913 - what `compare` is given, and the directions
    forward: Forward,
    tensors: Sequence[Tensor],
    gradients: Sequence[Tensor],
    directions: Sequence[Direction],
    limit: float,
    limits: Limits,
    loss: float,
) -> Verdict:
    pairs = zip(gradients, directions, strict=True)
    shares = tuple(dot(g, d.tensor) * d.factor for g, d in pairs)
    slope = sum(shares)
    if slope <= 0 or not math.isfinite(slope):
        return Verdict(0.0, shares=shares)  # a slope of 0 leaves nothing to measure
    verdict = _measured(forward, tensors, directions, slope, limit, limits, loss)
    return replace(verdict, shares=shares)


def _measured(  # noqa: PLR0913 - what `_along` is given, and the slope
    forward: Forward,
    tensors: Sequence[Tensor],
    directions: Sequence[Direction],
    slope: float,
    limit: float,
    limits: Limits,
    loss: float,
) -> Verdict:
    reach = norm(tensors) / norm([d.tensor for d in directions], [d.factor for d in directions])
    scale = scale_of(loss, slope * reach)
    found: dict[int, Slope] = {}
    for number in limits.tried:
        change = limits.changes[number]
        largest = _MOST_MOVE * change / max(limits.changes) * reach
        size = min(change * max(scale, 1e-30) / slope, largest or math.inf)
        measured = central_change(forward, tensors, directions, size)
        found[number] = Slope(2 * size * slope, measured, 4 * limits.noise * scale)
        if found[number].fits(limit) and not found[number].is_noise:
            return _agreement(found[number], limit)
    slopes = [found[number] for number in sorted(found)]
    if any(each.fits(limit) for each in slopes):
        return _agreement(max(slopes, key=lambda s: s.predicted if s.fits(limit) else 0.0), limit)
    best = min(slopes, key=lambda s: s.error)
    if _agree(slopes[0], slopes[1]):
        return Verdict(best.error, wrong=True, ratio=slopes[0].ratio)
    return Verdict(best.error, rough=best.error > limits.rough)


def scale_of(loss: float, reached: float) -> float:
    """Return the size of a loss; if its terms cancel, about the size of its terms.

    Args:
        loss: the loss.
        reached: the change that its slope predicts if the parameters moved by their own norm.
    """
    return reached if abs(loss) < _CANCELLED * abs(reached) < math.inf else abs(loss)


def _agreement(slope: Slope, limit: float) -> Verdict:
    error = slope.error if slope.error <= limit else 0.0
    return Verdict(error, predicted=slope.predicted, noise=slope.noise)


def _agree(one: Slope, other: Slope) -> bool:
    """Return whether two measured slopes are so similar that the gradient must be wrong.

    The effect of curvature, kinks or noise on a difference changes with the step; a wrong gradient
    is wrong by the same factor at every step.
    """
    off = min(abs(one.ratio - 1), abs(other.ratio - 1))
    alike = max(off, 0.5 * max(abs(one.ratio), abs(other.ratio)) if off > 0.5 else 0.0)
    return abs(one.ratio - other.ratio) <= _AGREEMENT * alike


def central_change(
    forward: Forward, tensors: Sequence[Tensor], directions: Sequence[Direction], size: float
) -> float:
    """Return loss(w + size d) - loss(w - size d), and move the tensors back."""
    move(tensors, directions, size)
    above = forward()
    move(tensors, directions, -2 * size)
    below = forward()
    move(tensors, directions, size)
    return above - below


def zero_entries(
    tensors: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[list[Tensor], list[Direction]]:
    """Return views of the tensors, and a direction that moves only entries without gradient.

    Of a large tensor, the direction moves a sample of rows.
    """
    views, directions = [], []
    for number, (tensor, gradient) in enumerate(zip(tensors, gradients, strict=True)):
        stride = max(1, tensor.numel() // MOST_ENTRIES)
        rows = slice(None, None, stride) if tensor.dim() else ...
        view, zeros = tensor[rows], gradient[rows] == 0
        if not bool(zeros.any()):
            continue
        views.append(view)
        directions.append(Direction(tiled(view, number).mul_(zeros), spread(view)))
    return views, directions


def depends_linearly(
    forward: Forward,
    tensors: Sequence[Tensor],
    directions: Sequence[Direction],
    noise_level: float,
) -> bool:
    """Return whether the loss changes in proportion to the step; a kink's change grows faster."""
    small = central_change(forward, tensors, directions, 2e-3)
    if abs(small) <= 30 * noise_level:
        return False
    large = central_change(forward, tensors, directions, 8e-3)
    return 2.8 <= large / small <= 5.6
