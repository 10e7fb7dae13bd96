"""Calibrates logits on examples that the head has not seen: a scale, and an offset for each label.

The scale is Guo et al.'s temperature (2017, arXiv 1706.04599). The offsets correct a head's bias
when a rare label has few examples. A prior holds the scale near 1 and the offsets near 0, so that a
few examples give no extreme values. Wrong labels would make the head look too certain, so the model
of the labels draws a share of them uniformly; the likelihood of each share comes from the examples.
This module knows no head.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

_SCALE_PRECISION = 6.0  # prior of the scale's logarithm: counts as so many examples
_OFFSET_PRECISION = 1.0
_MOST_STEPS, _MOST_HALVINGS, _LEAST_GAIN = 50, 20, 1e-9
_SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4)  # candidate shares of wrong labels, besides none
_NONE_BEFORE = 0.15  # prior probability that no label is wrong
_FEWEST_TO_DOUBT = 4  # examples of a label: with fewer, an outlier is no error
_MOST_ROUNDS, _LEAST_MOVE = 20, 1e-2
_LEAST_LIKELY, _LEAST_SHARE = 1e-300, 1e-3


@dataclass(frozen=True)
class WrongLabelShare:
    """The probability of each share of wrong labels, (1 + len(_SHARES),): no wrong labels first."""

    likely: Tensor

    @property
    def wrong(self) -> float:
        """The expected share."""
        return float(self.likely[1:] @ torch.tensor(_SHARES, dtype=torch.float64))

    @property
    def is_open(self) -> bool:
        """Whether all labels may be right: the examples favour wrong labels by a factor below e."""
        none = float(self.likely[0])
        return none * (1 - _NONE_BEFORE) * math.e > (1 - none) * _NONE_BEFORE


NO_WRONG_LABELS = WrongLabelShare(torch.tensor([1.0, *[0.0] * len(_SHARES)], dtype=torch.float64))


@dataclass(frozen=True)
class Calibration:
    """The calibration of logits.

    Attributes:
        scale: the factor of logits (N, K).
        offsets: added to them, (K,).
    """

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
    """Return the number of equally weighted examples that carry as much information (Kish 1965)."""
    return float(weights.sum().square() / weights.square().sum())


def weighted_loss(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the weighted mean cross-entropy of logits (N, K)."""
    losses = F.cross_entropy(logits, targets, reduction="none")
    return (losses * weights).sum() / weights.sum()


def noisy_label_losses(logits: Tensor, targets: Tensor, wrong: float) -> Tensor:
    """Return the cross-entropy (N,) of logits, if a share of the labels may be any by chance."""
    losses = F.cross_entropy(logits, targets, reduction="none").double()
    if not wrong:
        return losses
    wrong_chances = wrong * may_be_wrong(targets)
    chance = wrong_chances / logits.shape[1]
    return -torch.log((1 - wrong_chances) * (-losses).exp().clamp_min(_LEAST_LIKELY) + chance)


def wrong_label_share(logits: Tensor, targets: Tensor, weights: Tensor) -> WrongLabelShare:
    """Return the probability of each share of wrong labels among targets (N,), by logits (N, K).

    The model of the noise draws a wrong label uniformly from all labels. Labels with few examples
    are taken as right.
    """
    fit = _Fit(logits.detach().to(torch.float64), targets, weights)
    return fit.wrong_share([*fit.by_share()]) if bool(fit.may_be_wrong.any()) else NO_WRONG_LABELS


def calibrate(
    logits: Tensor, targets: Tensor, weights: Tensor, wrong_share: WrongLabelShare | None = None
) -> Calibration:
    """Fit scale and offsets to logits (N, K) of class numbers (N,).

    They are averaged over the shares of wrong labels, weighted by probability: a few examples
    seldom settle the share, and a wrong single choice of it costs much.

    Args:
        logits: by a head that has not seen the examples.
        targets: class numbers; one example of each label does not determine offsets, which are then
            0.
        weights: of the examples, (N,).
        wrong_share: the shares of wrong labels; by default estimated from these logits.
    """
    fit = _Fit(logits.detach().to(torch.float64), targets, weights)
    if wrong_share is None and not bool(fit.may_be_wrong.any()):
        wrong_share = NO_WRONG_LABELS
    found = [*fit.by_share(None if wrong_share is None else wrong_share.likely)]
    likely = (wrong_share or fit.wrong_share(found)).likely[: len(found)]
    point = likely @ torch.stack([fit.point(each) for _, each in found]) / likely.sum()
    return Calibration(float(point[0].exp()), point[1:])


class _Fit:
    """The loss at a point: the logarithm of the scale, then the offsets."""

    def __init__(self, logits: Tensor, targets: Tensor, weights: Tensor) -> None:
        self.logits = logits
        self.targets = targets
        self.shares = weights * (effective_count(weights) / weights.sum())
        self.precisions = torch.full((logits.shape[1] + 1,), _OFFSET_PRECISION, dtype=torch.float64)
        self.precisions[0] = _SCALE_PRECISION
        self.has_offsets = int(torch.bincount(targets).max()) > 1
        self.may_be_wrong = may_be_wrong(targets)

    def calibration(self, begin: Calibration | None = None) -> Calibration:
        """Minimise the loss by Newton's method."""
        point = torch.zeros(self.logits.shape[1] + 1, dtype=torch.float64)
        if begin is not None:
            point = self.point(begin)
        loss = self.loss(point)
        for _ in range(_MOST_STEPS):
            moved = self.better(point, loss)
            if moved is None:
                break
            point, loss = moved
        return Calibration(float(point[0].exp()), point[1:])

    def by_share(self, likely: Tensor | None = None) -> Iterator[tuple[float, Calibration]]:
        """Yield the calibration for each share of wrong labels, up to the last likely share."""
        found = self.calibration()
        yield 0.0, found
        most = None if likely is None else int((likely > _LEAST_SHARE).nonzero()[-1])
        for wrong in _SHARES[:most]:
            found = self._best_with_wrong_labels(found, wrong)
            yield wrong, found

    def wrong_share(self, by_share: Sequence[tuple[float, Calibration]]) -> WrongLabelShare:
        """Return the probability of each share, from its loss and its prior."""
        losses = [self.noisy_label_loss(found, wrong) for wrong, found in by_share]
        before = torch.full((len(losses),), (1 - _NONE_BEFORE) / len(_SHARES), dtype=torch.float64)
        before[0] = _NONE_BEFORE
        return WrongLabelShare(
            (before.log() - torch.tensor(losses, dtype=torch.float64)).softmax(0)
        )

    def _best_with_wrong_labels(self, found: Calibration, wrong: float) -> Calibration:
        """Fit with a share of wrong labels, by expectation and maximisation."""
        for _ in range(_MOST_ROUNDS):
            moved = self.trusting(self.right(found, wrong)).calibration(found)
            is_near = abs(math.log(moved.scale / found.scale)) < _LEAST_MOVE
            found = moved
            if is_near:
                break
        return found

    def trusting(self, right: Tensor) -> "_Fit":
        """Return the fit in which each example is weighted by the probability of its label."""
        other = copy.copy(self)
        other.shares = self.shares * right
        return other

    def right(self, found: Calibration, wrong: float) -> Tensor:
        """Return the probability that each label is right, (N,)."""
        likely = found(self.logits).softmax(1).gather(1, self.targets[:, None])[:, 0]
        wrong_chances = wrong * self.may_be_wrong
        own = likely.clamp_min(_LEAST_LIKELY) * (1 - wrong_chances)
        return own / (own + wrong_chances / self.logits.shape[1])

    def noisy_label_loss(self, found: Calibration, wrong: float) -> float:
        """Return the loss of a calibration, prior included."""
        losses = noisy_label_losses(found(self.logits), self.targets, wrong)
        before = (self.precisions * self.point(found).square()).sum() / 2
        return float(before + (self.shares * losses).sum())

    @staticmethod
    def point(found: Calibration) -> Tensor:
        """Return the logarithm of the scale, then the offsets, (1 + K,)."""
        return torch.cat([torch.tensor([math.log(found.scale)]).double(), found.offsets])

    def loss(self, point: Tensor) -> float:
        losses = F.cross_entropy(self._outputs(point), self.targets, reduction="none")
        return float((losses * self.shares).sum() + (self.precisions * point.square()).sum() / 2)

    def better(self, point: Tensor, loss: float) -> tuple[Tensor, float] | None:
        """Return a better point and its loss, halving the step; None if there is none."""
        slope, step = self.step(point)
        if float(slope @ step) < _LEAST_GAIN:  # this product is twice the expected gain
            return None
        for _ in range(_MOST_HALVINGS):
            if (found := self.loss(point - step)) < loss - _LEAST_GAIN:
                return point - step, found
            step = step / 2
        return None

    def step(self, point: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradient, and Newton's step, to be subtracted."""
        likely = self._outputs(point).softmax(1)
        errors = likely.clone()
        errors[torch.arange(len(errors)), self.targets] -= 1
        scaled, shares = self.logits * point[0].exp(), self.shares[:, None]
        slope = torch.cat([(errors * scaled * shares).sum()[None], (errors * shares).sum(0)])
        means = (likely * scaled).sum(1, keepdim=True)
        moved = likely * (scaled - means) * shares
        curve = torch.diag(self.precisions)
        curve[0, 0] += (moved * scaled).sum()
        curve[0, 1:] += moved.sum(0)
        curve[1:, 0] += moved.sum(0)
        curve[1:, 1:] += torch.diag((likely * shares).sum(0)) - (likely * shares).T @ likely
        slope = slope + self.precisions * point
        if not self.has_offsets:
            return slope, torch.cat([(slope[0] / curve[0, 0])[None], torch.zeros_like(slope[1:])])
        return slope, torch.linalg.solve(curve, slope)

    def _outputs(self, point: Tensor) -> Tensor:
        return self.logits * point[0].exp() + point[1:]


def may_be_wrong(targets: Tensor) -> Tensor:
    """Return 1 for each example whose label has enough others to detect an error, else 0."""
    return (torch.bincount(targets)[targets] >= _FEWEST_TO_DOUBT).double()
