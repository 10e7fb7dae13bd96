"""Calibrates logits on examples that the head has not seen: a scale, and an offset for each label.

The scale is Guo et al.'s temperature (2017, arXiv 1706.04599). The offsets mend what few examples
of a rare label do to a head. Both are held near 1 and 0 by a prior, so that a few examples choose
nothing extreme. This module knows no head.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

_SCALE_DOUBT = 6.0  # of the logarithm of the scale: examples that stand for 1 before any
_OFFSET_DOUBT = 1.0
_MOST_STEPS, _MOST_HALVINGS, _LEAST_GAIN = 50, 20, 1e-9


@dataclass(frozen=True)
class Calibration:
    """What logits (N, K) are multiplied by, and what is added: a float and a tensor (K,)."""

    scale: float
    offsets: Tensor

    def __call__(self, logits: Tensor) -> Tensor:
        """Return the calibrated logits."""
        return logits * self.scale + self.offsets


def balanced_weights(targets: Tensor, classes: int) -> Tensor:
    """Return a weight (N,) for each example, the same sum for each class; their mean is 1."""
    counts = torch.bincount(targets, minlength=classes).to(torch.float64)
    weights = 1 / counts[targets]
    return weights * (len(targets) / weights.sum())


def effective_count(weights: Tensor) -> float:
    """Return how many examples of equal weight tell as much (Kish 1965)."""
    return float(weights.sum().square() / weights.square().sum())


def weighted_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean cross-entropy of logits (N, K)."""
    losses = F.cross_entropy(logits, targets, reduction="none")
    return (losses * weights).sum() / weights.sum()


def calibrate(logits: Tensor, targets: Tensor, weights: Tensor) -> Calibration:
    """Fit scale and offsets to logits (N, K) of class numbers (N,), by Newton's method.

    Labels with one example each say nothing of the offsets, which are 0 then.
    """
    fit = _Fit(logits.detach().to(torch.float64), targets, weights)
    point = torch.zeros(logits.shape[1] + 1, dtype=torch.float64)
    loss = fit.loss(point)
    for _ in range(_MOST_STEPS):
        step, gain = fit.step(point), 0.0
        for _ in range(_MOST_HALVINGS):
            if (gain := loss - fit.loss(point - step)) > 0:
                break
            step = step / 2
        if gain <= _LEAST_GAIN:
            break
        point, loss = point - step, loss - gain
    return Calibration(float(point[0].exp()), point[1:])


class _Fit:
    """The loss of a point: the logarithm of the scale, then the offsets."""

    def __init__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> None:
        self.logits, self.targets = logits, targets
        self.shares = weights * (effective_count(weights) / weights.sum())
        self.doubts = torch.full((logits.shape[1] + 1,), _OFFSET_DOUBT, dtype=torch.float64)
        self.doubts[0] = _SCALE_DOUBT
        self.has_offsets = int(torch.bincount(targets).max()) > 1

    def loss(self, point: Tensor) -> float:
        losses = F.cross_entropy(self._outputs(point), self.targets, reduction="none")
        return float((losses * self.shares).sum() + (self.doubts * point.square()).sum() / 2)

    def step(self, point: Tensor) -> Tensor:
        """Return Newton's step, to be subtracted."""
        likely = self._outputs(point).softmax(1)
        errors = likely.clone()
        errors[torch.arange(len(errors)), self.targets] -= 1
        scaled, shares = self.logits * point[0].exp(), self.shares[:, None]
        slope = torch.cat([(errors * scaled * shares).sum()[None], (errors * shares).sum(0)])
        means = (likely * scaled).sum(1, keepdim=True)
        moved = likely * (scaled - means) * shares
        curve = torch.diag(self.doubts)
        curve[0, 0] += (moved * scaled).sum()
        curve[0, 1:] += moved.sum(0)
        curve[1:, 0] += moved.sum(0)
        curve[1:, 1:] += torch.diag((likely * shares).sum(0)) - (likely * shares).T @ likely
        slope = slope + self.doubts * point
        if not self.has_offsets:
            return torch.cat([(slope[0] / curve[0, 0])[None], torch.zeros_like(slope[1:])])
        step: Tensor = torch.linalg.solve(curve, slope)
        return step

    def _outputs(self, point: Tensor) -> Tensor:
        return self.logits * point[0].exp() + point[1:]
