"""Fits a linear head to features without a gradient step.

Several heads are fitted: class centroids mixed with the head before any example (a label's prior,
counted as a number of examples), and ridge regression from that prior. Each is scored on every
example by its exact leave-one-out form, scaled by a temperature that the same scores choose, and
the heads are averaged by their leave-one-out likelihood and by their prior weight (`Mixture`). Each
label weighs the same, whatever its number of examples. An average of linear heads is one linear
head.

Sources: Snell et al. 2017 (arXiv 1703.05175) for centroids; Hastie, Tibshirani and Friedman 2009,
section 7.10.1, for ridge regression's leave-one-out residuals. This module knows no model.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from cog_adapt.runner.heads.calibration import (
    balanced_weights,
    calibrate,
    effective_count,
    weighted_loss,
)
from cog_adapt.runner.heads.linear_head import LinearHead

_BEGINNING = 4.0  # a label's prior counts as so many examples if gradients start from it
# With smaller ones a direction of few examples is taken as certain: R² -.16 for .41.
_NUMBER_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
# Power of the likelihood: errors of heads that share their few examples say less about which head
# is right than as many independent errors would. Over eight sizes of two sets R² rises .005.
_CERTAINTY = 0.5
_INTERCEPT = 0.3  # the constant column's value: a smaller value is shrunk more
_FREE = 10.0  # the constant column's value if it is hardly shrunk
_COSINE_SCALE = 10.0  # the scale without any evidence from examples
_RESIDUAL_SCALE = 5.0
_LEAST_SPREAD = 1e-3  # share of the features' length


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
class Mixture:
    """The heads that are averaged for labels.

    Attributes:
        prior_examples: the number of examples that a label's prior counts as, for each centroid
            head; may be empty.
        penalties: of the ridge regressions.
        ridge_share: the prior weight of a ridge regression; that of centroids is 1. Ridge wins with
            many examples, and is overconfident with few.
        certainty: the power of the likelihood.
        narrows: whether the usual scale shrinks with the number of labels, whose rows are further
            apart around their mean: by the root of K / (K - 1), in the prior and in the head.
    """

    prior_examples: tuple[float, ...] = (2.0, 4.0)
    penalties: tuple[float, ...] = (1.0, 3.0)
    ridge_share: float = 1.0
    certainty: float = 1.0
    narrows: bool = False


# `auto` chooses between this head and gradients by rules that were measured with this mixture. If
# `auto` does not choose, names that may mislead count less (docs/results/left-out.md).
MIXTURE = Mixture()
OF_FEW = Mixture((0.0, 1.0, 2.0), (1.0,), ridge_share=0.25, certainty=0.5, narrows=True)
# For labels without priors (pictures, tables). One example of each label does not show how far
# apart examples of one class are: centroids at the usual scale are then too sure, ridges less so.
# Chosen on half of 28 sets, and judged on the other half (docs/results/left-out-others.md).
NAMELESS = Mixture(prior_examples=(), penalties=(1.0, 3.0, 10.0), certainty=0.5)


@dataclass(frozen=True)
class FittedHead:
    """One of the heads that are averaged.

    Attributes:
        name: the kind of the head.
        head: the head, in the space of features.
        left_out: outputs (N, K); the output of an example is by a head that has not seen it.
    """

    name: str
    head: LinearHead
    left_out: Tensor


def fit_classes(
    features: Tensor, targets: Tensor, prior: LinearHead, mixture: Mixture = MIXTURE
) -> ClosedForm:
    """Fit a head to class numbers.

    Args:
        features: (N, D), of N examples.
        targets: (N,), class numbers below K.
        prior: the head before any example, K rows. A row of zeros is no prior: its class needs an
            example.
        mixture: the heads that are averaged.
    """
    space = FeatureSpace.of(features, targets, len(prior.weight))
    inside, rows = space.inside(features), space.rows(prior)
    weights = balanced_weights(targets, len(rows))
    fitted, likelihoods = [], []
    for each, scale, share in _class_heads(
        inside, targets=targets, rows=rows, weights=weights, mixture=mixture
    ):
        calibration = calibrate(each.left_out * scale, targets, weights)
        outputs = calibration(each.left_out * scale)
        head = each.head.scaled(scale).calibrated(calibration)
        fitted.append(FittedHead(each.name, head, outputs))
        loss = weighted_loss(outputs, targets, weights)
        sure = mixture.certainty * effective_count(weights)
        likelihoods.append(math.log(share) - loss * sure)
    shares = torch.softmax(torch.stack(likelihoods), 0)
    return average(fitted, shares, space)


def unfitted_classes(features: Tensor, targets: Tensor, prior: LinearHead) -> LinearHead:
    """Return centroids at the usual scale, for gradients to begin with.

    A calibrated head already fits its examples: the remaining loss is small, and the layers below
    would learn little from it.
    """
    space = FeatureSpace.of(features, targets, len(prior.weight))
    rows = space.rows(prior)
    sums = _sums(space.inside(features), targets, len(rows)) + _BEGINNING * rows
    none = torch.zeros(len(rows), dtype=torch.float64)
    return space.outside(LinearHead(F.normalize(sums, dim=1) * _COSINE_SCALE, none))


def fit_numbers(features: Tensor, targets: Tensor, prior: LinearHead) -> ClosedForm:
    """Fit a head to numbers by ridge regressions from the prior and from zero.

    They are averaged by the root of their leave-one-out likelihood, since the full likelihood
    overcommits to one (Yao et al. 2018, arXiv 1704.02030): a trained prior beats a few examples,
    and a useless prior gets no share.

    Args:
        features: (N, D), of N examples, N at least 2.
        targets: (N, K).
        prior: the head before any example, K rows.
    """
    space = FeatureSpace.of(features, torch.zeros(len(features), dtype=torch.int64), 1)
    wanted = targets.to(torch.float64)
    fitted = [*number_heads(space.inside(features), wanted, space.inside_head(prior))]
    errors = torch.stack([(each.left_out - wanted).square().mean(0) for each in fitted])
    shares = errors / wanted.var(0).clamp_min(1e-24)
    likelihoods = -_CERTAINTY * len(wanted) / 2 * shares.mean(1).clamp_min(1e-24).log()
    return average(fitted, torch.softmax(likelihoods, 0), space)


@dataclass(frozen=True)
class FeatureSpace:
    """The features, centred between the classes and of length 1 on average."""

    centre: Tensor
    length: Tensor

    @classmethod
    def of(cls, features: Tensor, targets: Tensor, classes: int) -> "FeatureSpace":
        """Find the space of features (N, D) with class numbers (N,)."""
        doubled = features.to(torch.float64)
        sums = _sums(doubled, targets, classes)
        counts = torch.bincount(targets, minlength=classes)
        seen = counts > 0  # a class without examples has only its prior
        centre = (sums[seen] / counts[seen, None]).mean(0)
        length, whole = (doubled - centre).norm(dim=1).mean(), doubled.norm(dim=1).mean()
        if length < _LEAST_SPREAD * whole:  # the difference is rounding, and must not be enlarged
            length = whole
        return cls(centre, length.clamp_min(1e-12))

    def inside(self, features: Tensor) -> Tensor:
        """Return features in this space."""
        return (features.to(torch.float64) - self.centre) / self.length

    def rows(self, prior: LinearHead) -> Tensor:
        """Return the prior's directions: rows of length 1 (or 0) around their mean."""
        rows = F.normalize(prior.weight.to(torch.float64), dim=1)
        return F.normalize(rows - rows.mean(0), dim=1)

    def inside_head(self, head: LinearHead) -> LinearHead:
        """Return the head that maps features of this space as `head` maps the original features."""
        weight = head.weight.to(torch.float64)
        return LinearHead(weight * self.length, head.bias + weight @ self.centre)

    def outside(self, head: LinearHead) -> LinearHead:
        """Return the head that maps original features as `head` maps features of this space."""
        weight = head.weight / self.length
        return LinearHead(weight.float(), (head.bias - weight @ self.centre).float())


def _class_heads(
    inside: Tensor, targets: Tensor, rows: Tensor, weights: Tensor, mixture: Mixture
) -> Iterator[tuple[FittedHead, float, float]]:
    """Yield each head with its share and the scale at which its outputs are usual logits."""
    apart = (len(rows) - 1) / len(rows) if mixture.narrows else 1.0
    for count in _counts(targets, rows, mixture):
        each = centroids(
            f"centroids, prior {count:g}", inside=inside, targets=targets, rows=rows, count=count
        )
        yield each, _COSINE_SCALE * apart, 1.0
    wanted = F.one_hot(targets, len(rows)).to(torch.float64)
    for penalty in mixture.penalties:
        each = ridge(
            f"ridge {penalty:g}",
            inside=inside,
            wanted=wanted,
            rows=rows,
            weights=weights,
            penalty=penalty,
        )
        yield each, _RESIDUAL_SCALE * apart, mixture.ridge_share


def _counts(targets: Tensor, rows: Tensor, mixture: Mixture) -> tuple[float, ...]:
    """Return each prior's number of examples; a label without examples has its prior alone."""
    is_seen = len(set(targets.tolist())) == len(rows)
    if is_seen and 0.0 in mixture.prior_examples and not rows.any():
        return (0.0,)  # without priors all counts give the same head
    return tuple(count for count in mixture.prior_examples if count or is_seen)


def number_heads(inside: Tensor, wanted: Tensor, prior: LinearHead) -> Iterator[FittedHead]:
    """Yield the ridge regressions for numbers (N, K): from the prior, and from nothing."""
    nothing = LinearHead(torch.zeros_like(prior.weight), torch.zeros_like(prior.bias))
    says_nothing = not (prior.weight.any() or prior.bias.any())
    begins = [("prior", prior, _INTERCEPT), ("prior", prior, _FREE), ("nothing", nothing, _FREE)]
    ones = torch.ones(len(inside), dtype=torch.float64)
    for begin, head, constant in begins[: 2 if says_nothing else 3]:
        for penalty in _NUMBER_PENALTIES:
            name = f"ridge {penalty:g} from {begin}, constant {constant:g}"
            left = wanted - head.bias
            each = ridge(
                name,
                inside=inside,
                wanted=left,
                rows=head.weight,
                weights=ones,
                penalty=penalty,
                constant=constant,
            )
            whole = LinearHead(each.head.weight, each.head.bias + head.bias)
            yield FittedHead(name, whole, each.left_out + head.bias)


def centroids(name: str, inside: Tensor, targets: Tensor, rows: Tensor, count: float) -> FittedHead:
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
    return FittedHead(name, head, outputs)


def ridge(  # noqa: PLR0913 - a ridge regression is these
    name: str,
    inside: Tensor,
    wanted: Tensor,
    rows: Tensor,
    weights: Tensor,
    penalty: float,
    constant: float = _INTERCEPT,
) -> FittedHead:
    """Regress from the rows' outputs; leave each example out by its leverage."""
    roots = weights.sqrt()[:, None]
    columns = torch.cat([inside, inside.new_full((len(inside), 1), constant)], 1) * roots
    residuals = (wanted - inside @ rows.T) * roots
    slopes, leverage = _solved(columns, residuals, penalty)
    left_out = wanted - (residuals - columns @ slopes) / (1 - leverage[:, None]) / roots
    return FittedHead(name, LinearHead(rows + slopes[:-1].T, slopes[-1] * constant), left_out)


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


def average(fitted: list[FittedHead], shares: Tensor, space: FeatureSpace) -> ClosedForm:
    """Return one head that answers as the average of several does."""
    weight = sum(s * f.head.weight for s, f in zip(shares, fitted, strict=True))
    bias = sum(s * f.head.bias for s, f in zip(shares, fitted, strict=True))
    outputs = sum(s * f.left_out for s, f in zip(shares, fitted, strict=True))
    assert isinstance(weight, Tensor)
    assert isinstance(bias, Tensor)
    assert isinstance(outputs, Tensor)
    named = {f.name: round(float(s), 4) for s, f in zip(shares, fitted, strict=True)}
    return ClosedForm(space.outside(LinearHead(weight, bias)), outputs.float(), named)
