"""Calibrates logits on examples that the head has not seen: one scale, and an offset for each label.

The scale is Guo et al.'s temperature (2017, arXiv 1706.04599). The offsets mend what few examples of
a rare label do to a head. Both are held near 1 and 0 by a prior, so that a few examples choose
nothing extreme. This module knows no head.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

_SCALE_DOUBT = 6.0  # of the logarithm of the scale: examples that stand for 1 before any
_OFFSET_DOUBT = 1.0
_MOST_ITERATIONS = 50


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
    """Fit scale and offsets to logits (N, K) of class numbers (N,).

    Labels with one example each say nothing of the offsets, which are 0 then.
    """
    logits, count = logits.detach().to(torch.float64), effective_count(weights)
    counts = torch.bincount(targets, minlength=logits.shape[1])
    with torch.inference_mode(False), torch.enable_grad():
        logits = logits.clone()
        log_scale = torch.zeros((), dtype=torch.float64, requires_grad=True)
        offsets = torch.zeros(logits.shape[1], dtype=torch.float64, requires_grad=True)
        fitted = [log_scale, offsets] if int(counts.max()) > 1 else [log_scale]
        optimizer = torch.optim.LBFGS(
            fitted, max_iter=_MOST_ITERATIONS, line_search_fn="strong_wolfe"
        )

        def loss() -> Tensor:
            optimizer.zero_grad()
            fit = weighted_loss(logits * log_scale.exp() + offsets, targets, weights) * count
            doubt = _SCALE_DOUBT * log_scale.square() + _OFFSET_DOUBT * offsets.square().sum()
            total = fit + doubt / 2
            total.backward()  # type: ignore[no-untyped-call]
            return total

        optimizer.step(loss)  # type: ignore[no-untyped-call]
    return Calibration(float(log_scale.detach().exp()), offsets.detach())
