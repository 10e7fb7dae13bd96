"""Fits a linear head to features without a gradient step.

Several heads are fitted: class centroids that are mixed with the head before any example (the
label's prior, as so many examples more), and ridge regression from that prior. Each is scored on
every example by its exact leave-one-out form, scaled by a temperature that the same scores choose,
and the heads are averaged by their leave-one-out likelihood. A label weighs the same whatever its
number of examples. An average of linear heads is one linear head, so the result is one.

Sources: Snell et al. 2017 (arXiv 1703.05175) for centroids; Hastie, Tibshirani and Friedman 2009,
section 7.10.1, for ridge regression's leave-one-out residuals. This module knows no model.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from cog_adapt.runner.calibration import (
    Calibration,
    balanced_weights,
    calibrate,
    effective_count,
    weighted_loss,
)

_PRIOR_EXAMPLES = (2.0, 4.0)  # as how many examples of a label its prior counts
_CLASS_PENALTIES = (1.0, 3.0)
_NUMBER_PENALTIES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_INTERCEPT = 0.3  # the constant column's value: a smaller one is shrunk more
_COSINE_SCALE = 10.0  # the scale that no example speaks for
_RESIDUAL_SCALE = 5.0
_LEAST_SPREAD = 1e-3  # of the features' length


@dataclass(frozen=True)
class LinearHead:
    """Outputs are features times weightᵀ plus bias: (N, D) to (N, K)."""

    weight: Tensor
    bias: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Return outputs (N, K)."""
        return features @ self.weight.T + self.bias

    def scaled(self, scale: float) -> "LinearHead":
        """Return the head of outputs `scale` times as large."""
        return LinearHead(self.weight * scale, self.bias * scale)

    def calibrated(self, calibration: Calibration) -> "LinearHead":
        """Return the head of calibrated outputs."""
        scaled = self.scaled(calibration.scale)
        offsets = calibration.offsets.to(scaled.bias.dtype)
        return LinearHead(scaled.weight, scaled.bias + offsets)


@dataclass(frozen=True)
class ClosedForm:
    """A fitted head.

    Attributes:
        head: in the features' own space.
        left_out: outputs (N, K) of each example by heads that have not seen it.
        shares: the part of each fitted head in `head`, by name.
    """

    head: LinearHead
    left_out: Tensor
    shares: Mapping[str, float]


@dataclass(frozen=True)
class _Fitted:
    name: str
    head: LinearHead
    left_out: Tensor


def fit_classes(features: Tensor, targets: Tensor, prior: LinearHead) -> ClosedForm:
    """Fit a head to class numbers.

    Args:
        features: (N, D), of N examples.
        targets: (N,), class numbers below K.
        prior: the head before any example, K rows. A row of zeros says nothing: its class needs
            an example.
    """
    space = _Space.of(features, targets, len(prior.weight))
    inside, rows = space.inside(features), space.rows(prior)
    weights = balanced_weights(targets, len(rows))
    fitted, likelihoods = [], []
    for each, scale in _class_heads(inside, targets, rows, weights):
        calibration = calibrate(each.left_out * scale, targets, weights)
        outputs = calibration(each.left_out * scale)
        head = each.head.scaled(scale).calibrated(calibration)
        fitted.append(_Fitted(each.name, head, outputs))
        loss = weighted_loss(outputs, targets, weights)
        likelihoods.append(-loss * effective_count(weights))
    shares = torch.softmax(torch.stack(likelihoods), 0)
    return _average(fitted, shares, space)


def unfitted_classes(features: Tensor, targets: Tensor, prior: LinearHead) -> LinearHead:
    """Return centroids at the usual scale, for gradients to begin with.

    A calibrated head has learned its examples: little loss is left, and the layers below would
    learn little from it.
    """
    space = _Space.of(features, targets, len(prior.weight))
    rows = space.rows(prior)
    sums = _sums(space.inside(features), targets, len(rows)) + _PRIOR_EXAMPLES[-1] * rows
    none = torch.zeros(len(rows), dtype=torch.float64)
    return space.outside(LinearHead(F.normalize(sums, dim=1) * _COSINE_SCALE, none))


def fit_numbers(features: Tensor, targets: Tensor) -> ClosedForm:
    """Fit a head to numbers by ridge regression; the penalty has the least leave-one-out error.

    Args:
        features: (N, D), of N examples, N at least 2.
        targets: (N, K).
    """
    space = _Space.of(features, torch.zeros(len(features), dtype=torch.int64), 1)
    targets = targets.to(torch.float64)
    middle, spread = targets.mean(0), targets.std(0).clamp_min(1e-12)
    inside, scaled = space.inside(features), (targets - middle) / spread
    none = torch.zeros(targets.shape[1], inside.shape[1], dtype=torch.float64)
    weights = torch.ones(len(inside), dtype=torch.float64)
    fitted = [
        _ridge(f"ridge {penalty:g}", inside, scaled, none, weights, penalty)
        for penalty in _NUMBER_PENALTIES
    ]
    errors = torch.stack([(each.left_out - scaled).square().mean() for each in fitted])
    best = fitted[int(errors.argmin())]
    head = LinearHead(best.head.weight * spread[:, None], best.head.bias * spread + middle)
    outputs = best.left_out * spread + middle
    return ClosedForm(space.outside(head), outputs.float(), {best.name: 1.0})


@dataclass(frozen=True)
class _Space:
    """The features, centred between the classes and of length 1 on average."""

    centre: Tensor
    length: Tensor

    @classmethod
    def of(cls, features: Tensor, targets: Tensor, classes: int) -> "_Space":
        doubled = features.to(torch.float64)
        sums = _sums(doubled, targets, classes)
        counts = torch.bincount(targets, minlength=classes)
        seen = counts > 0  # a class without examples has its prior alone
        centre = (sums[seen] / counts[seen, None]).mean(0)
        length, whole = (doubled - centre).norm(dim=1).mean(), doubled.norm(dim=1).mean()
        if length < _LEAST_SPREAD * whole:  # what differs is rounding, not to be enlarged
            length = whole
        return cls(centre, length.clamp_min(1e-12))

    def inside(self, features: Tensor) -> Tensor:
        return (features.to(torch.float64) - self.centre) / self.length

    def rows(self, prior: LinearHead) -> Tensor:
        """Return the prior's directions: rows of length 1 (or 0) around their mean."""
        rows = F.normalize(prior.weight.to(torch.float64), dim=1)
        return F.normalize(rows - rows.mean(0), dim=1)

    def outside(self, head: LinearHead) -> LinearHead:
        weight = head.weight / self.length
        return LinearHead(weight.float(), (head.bias - weight @ self.centre).float())


def _class_heads(
    inside: Tensor, targets: Tensor, rows: Tensor, weights: Tensor
) -> Iterator[tuple[_Fitted, float]]:
    """Yield each head with the scale at which its outputs are usual logits."""
    for count in _PRIOR_EXAMPLES:
        yield _centroids(f"centroids, prior {count:g}", inside, targets, rows, count), _COSINE_SCALE
    wanted = F.one_hot(targets, len(rows)).to(torch.float64)
    for penalty in _CLASS_PENALTIES:
        each = _ridge(f"ridge {penalty:g}", inside, wanted, rows, weights, penalty)
        yield each, _RESIDUAL_SCALE


def _centroids(name: str, inside: Tensor, targets: Tensor, rows: Tensor, count: float) -> _Fitted:
    """Take each class's mean, with its prior as `count` examples more.

    To leave an example out moves its own class's mean, and with it the centre of all.
    """
    counts = torch.bincount(targets, minlength=len(rows)).to(torch.float64)
    sums = _sums(inside, targets, len(rows))
    mixed = sums + count * rows
    own, others = counts[targets][:, None], (counts[targets] - 1)[:, None]
    moved = (sums[targets] - inside) / others.clamp_min(1) - sums[targets] / own
    moved = torch.where(others > 0, moved / len(rows), torch.zeros_like(moved))
    seen = inside - moved
    products = seen @ mixed.T - counts * (moved * seen).sum(1)[:, None]
    squares = mixed.square().sum(1) - 2 * counts * (moved @ mixed.T)
    squares = squares + counts.square() * moved.square().sum(1)[:, None]
    outputs = products / squares.clamp_min(1e-24).sqrt()
    without = F.normalize(mixed[targets] - inside - others * moved, dim=1)
    outputs[torch.arange(len(targets)), targets] = (seen * without).sum(1)
    head = LinearHead(F.normalize(mixed, dim=1), torch.zeros(len(rows), dtype=torch.float64))
    return _Fitted(name, head, outputs)


def _ridge(  # noqa: PLR0913 - a ridge regression is these
    name: str, inside: Tensor, wanted: Tensor, rows: Tensor, weights: Tensor, penalty: float
) -> _Fitted:
    """Regress from the rows' outputs; leave each example out by its leverage."""
    constant = torch.full((len(inside), 1), _INTERCEPT, dtype=torch.float64)
    roots = weights.sqrt()[:, None]
    columns = torch.cat([inside, constant], 1) * roots
    residuals = (wanted - inside @ rows.T) * roots
    slopes, leverage = _solved(columns, residuals, penalty)
    left_out = wanted - (residuals - columns @ slopes) / (1 - leverage[:, None]) / roots
    return _Fitted(name, LinearHead(rows + slopes[:-1].T, slopes[-1] * _INTERCEPT), left_out)


def _solved(columns: Tensor, residuals: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Return slopes (D, K) and leverages (N,), by the smaller of the two systems."""
    rows, width = columns.shape
    if rows <= width:
        gram = columns @ columns.T
        inverse = torch.linalg.inv(gram + penalty * torch.eye(rows, dtype=torch.float64))
        return columns.T @ (inverse @ residuals), torch.diagonal(gram @ inverse)
    inner = columns.T @ columns + penalty * torch.eye(width, dtype=torch.float64)
    solved = torch.linalg.solve(inner, columns.T)
    return solved @ residuals, (columns * solved.T).sum(1)


def _sums(inside: Tensor, targets: Tensor, classes: int) -> Tensor:
    zeros = torch.zeros(classes, inside.shape[1], dtype=torch.float64, device=inside.device)
    return zeros.index_add(0, targets, inside)


def _average(fitted: list[_Fitted], shares: Tensor, space: _Space) -> ClosedForm:
    weight = sum(s * f.head.weight for s, f in zip(shares, fitted, strict=True))
    bias = sum(s * f.head.bias for s, f in zip(shares, fitted, strict=True))
    outputs = sum(s * f.left_out for s, f in zip(shares, fitted, strict=True))
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    assert isinstance(outputs, Tensor)
    named = {f.name: round(float(s), 4) for s, f in zip(shares, fitted, strict=True)}
    return ClosedForm(space.outside(LinearHead(weight, bias)), outputs.float(), named)
