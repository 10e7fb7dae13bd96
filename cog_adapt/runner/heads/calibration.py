"""Calibrates logits on examples that the head has not seen: a scale, and an offset for each label.

The scale is Guo et al.'s temperature (2017, arXiv 1706.04599). The offsets mend what few examples
of a rare label do to a head. Both are held near 1 and 0 by a prior, so that a few examples choose
nothing extreme. Wrong labels would make logits look less sure than they should be: so a share of
the labels may be any label by chance, where the examples say so. This module knows no head.
"""

import copy
import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

_SCALE_DOUBT = 6.0  # of the logarithm of the scale: examples that stand for 1 before any
_OFFSET_DOUBT = 1.0
_MOST_STEPS, _MOST_HALVINGS, _LEAST_GAIN = 50, 20, 1e-9
_FIRST_WRONG = 0.1  # the share of wrong labels that the search begins with
_RIGHT_BEFORE = 3.0  # examples with right labels, before any
_FEWEST_TO_DOUBT = 4  # examples of a label: where there are fewer, an odd one is no error
_LEAST_EVIDENCE = 1.0  # of wrong labels: how much likelier the labels are by it, a logarithm
_MOST_ROUNDS, _LEAST_MOVE = 100, 1e-3
_LEAST_LIKELY = 1e-300


@dataclass(frozen=True)
class Calibration:
    """How logits are calibrated.

    Attributes:
        scale: what logits (N, K) are multiplied by.
        offsets: what is added, (K,).
        wrong: the share of labels that are believed to be wrong.
    """

    scale: float
    offsets: Tensor
    wrong: float = 0.0

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


def doubted_losses(logits: Tensor, targets: Tensor, wrong: float) -> Tensor:
    """Return the cross-entropy (N,) of logits, where a share of the labels may be any by chance."""
    losses = F.cross_entropy(logits, targets, reduction="none").double()
    if not wrong:
        return losses
    doubts = wrong * _may_be_wrong(targets)
    chance = doubts / logits.shape[1]
    return -torch.log((1 - doubts) * (-losses).exp().clamp_min(_LEAST_LIKELY) + chance)


def calibrate(logits: Tensor, targets: Tensor, weights: Tensor) -> Calibration:
    """Fit scale and offsets to logits (N, K) of class numbers (N,).

    Labels with one example each say nothing of the offsets, which are 0 then.
    """
    fit = _Fit(logits.detach().to(torch.float64), targets, weights)
    trusting = fit.calibration()
    if fit.gain_of_doubt(trusting) <= 0:
        return trusting
    doubting = _doubting(fit, trusting)
    gain = fit.doubted_loss(trusting) - fit.doubted_loss(doubting)
    return doubting if gain >= _LEAST_EVIDENCE else trusting


def _doubting(fit: "_Fit", found: Calibration) -> Calibration:
    """Fit the share of wrong labels too, by expectation and maximisation."""
    found = replace(found, wrong=_FIRST_WRONG)
    for _ in range(_MOST_ROUNDS):
        right = fit.right(found)
        count = float((fit.shares * fit.may_be_wrong).sum()) + _RIGHT_BEFORE
        wrong = float((fit.shares * (1 - right)).sum()) / count
        moved = replace(fit.trusting(right).calibration(found), wrong=wrong)
        near = abs(moved.wrong - found.wrong) < _LEAST_MOVE
        found = moved
        if near:
            break
    return found


class _Fit:
    """The loss of a point: the logarithm of the scale, then the offsets."""

    def __init__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> None:
        self.logits, self.targets = logits, targets
        self.shares = weights * (effective_count(weights) / weights.sum())
        self.doubts = torch.full((logits.shape[1] + 1,), _OFFSET_DOUBT, dtype=torch.float64)
        self.doubts[0] = _SCALE_DOUBT
        self.has_offsets = int(torch.bincount(targets).max()) > 1
        self.may_be_wrong = _may_be_wrong(targets)

    def calibration(self, begin: Calibration | None = None) -> Calibration:
        """Minimise the loss by Newton's method."""
        point = torch.zeros(self.logits.shape[1] + 1, dtype=torch.float64)
        if begin is not None:
            point = torch.cat([torch.tensor([math.log(begin.scale)]), begin.offsets])
        loss = self.loss(point)
        for _ in range(_MOST_STEPS):
            moved = self.better(point, loss)
            if moved is None:
                break
            point, loss = moved
        return Calibration(float(point[0].exp()), point[1:])

    def trusting(self, right: Tensor) -> "_Fit":
        """Return the fit in which each example counts as its label is likely to be right."""
        other = copy.copy(self)
        other.shares = self.shares * right
        return other

    def right(self, found: Calibration) -> Tensor:
        """Return how likely each label is to be right, (N,)."""
        own, chance = self._likely(found)
        return own / (own + chance)

    def gain_of_doubt(self, found: Calibration) -> float:
        """Return how fast the loss falls, at first, with the share of labels that may be wrong."""
        own, _ = self._likely(found)
        gains = 1 / (own * self.logits.shape[1]) - 1
        return float((self.shares * self.may_be_wrong * gains).sum()) - _RIGHT_BEFORE

    def doubted_loss(self, found: Calibration) -> float:
        """Return the loss of a calibration, with what is believed before any example."""
        losses = doubted_losses(found(self.logits), self.targets, found.wrong)
        point = torch.cat([torch.tensor([math.log(found.scale)]), found.offsets])
        before = (self.doubts * point.square()).sum() / 2 - _RIGHT_BEFORE * math.log1p(-found.wrong)
        return float(before + (self.shares * losses).sum())

    def _likely(self, found: Calibration) -> tuple[Tensor, Tensor]:
        """Return how likely each label is by its example, and by chance."""
        likely = found(self.logits).softmax(1).gather(1, self.targets[:, None])[:, 0]
        wrong = found.wrong * self.may_be_wrong
        chance = wrong / self.logits.shape[1]
        return likely.clamp_min(_LEAST_LIKELY) * (1 - wrong), chance

    def loss(self, point: Tensor) -> float:
        losses = F.cross_entropy(self._outputs(point), self.targets, reduction="none")
        return float((losses * self.shares).sum() + (self.doubts * point.square()).sum() / 2)

    def better(self, point: Tensor, loss: float) -> tuple[Tensor, float] | None:
        """Return a better point and its loss, halving the step; None where there is none."""
        step = self.step(point)
        for _ in range(_MOST_HALVINGS):
            if (found := self.loss(point - step)) < loss - _LEAST_GAIN:
                return point - step, found
            step = step / 2
        return None

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


def _may_be_wrong(targets: Tensor) -> Tensor:
    """Return 1 for each example whose label has enough others to tell an error by, else 0."""
    return (torch.bincount(targets)[targets] >= _FEWEST_TO_DOUBT).double()
