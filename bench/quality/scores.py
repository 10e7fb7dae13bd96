"""Scores of one run, and their summary over paired splits: accuracy, log loss, calibration.

The expected calibration error (Guo et al. 2017, arXiv 1706.04599) has 15 bins of equal width. It is
computed for each split and averaged: with few test texts chance makes it larger, never smaller.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy import stats
from torch import Tensor

BINS = 15
_LEAST_PROBABILITY = 1e-9  # of the right label: a log loss stays finite
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Scores:
    """The scores of one contestant on one split.

    Attributes:
        accuracy: share of test texts whose most probable label is right.
        log_loss: mean of minus the natural logarithm of the right label's probability.
        calibration_error: expected calibration error of the most probable label.
        seconds: time of the adaptation; predictions do not count.
    """

    accuracy: float
    log_loss: float
    calibration_error: float
    seconds: float


def score(
    probabilities: Tensor, labels: Sequence[str], targets: Sequence[str], seconds: float
) -> Scores:
    """Score probabilities (N, labels) against the right labels of N texts.

    A right label that is not among `labels` counts as wrong, with the least probability.
    """
    rows = probabilities.tolist()
    columns = {label: column for column, label in enumerate(labels)}
    best = [max(range(len(row)), key=row.__getitem__) for row in rows]
    right = [columns.get(target) == column for target, column in zip(targets, best, strict=True)]
    of_right = [
        row[columns[target]] if target in columns else 0.0
        for row, target in zip(rows, targets, strict=True)
    ]
    return Scores(
        accuracy=statistics.fmean(right),
        log_loss=statistics.fmean(-math.log(max(p, _LEAST_PROBABILITY)) for p in of_right),
        calibration_error=calibration_error([max(row) for row in rows], right),
        seconds=seconds,
    )


def score_numbers(outputs: Tensor, wanted: Tensor, seconds: float) -> Scores:
    """Score numbers of one shape by R²; numbers have no log loss and no calibration."""
    unexplained = (outputs.double() - wanted.double()).square().mean()
    share = unexplained / wanted.double().var(correction=0)
    return Scores(1 - float(share), math.nan, math.nan, seconds)


def score_classes(probabilities: Tensor, wanted: Tensor, seconds: float = 0.0) -> Scores:
    """Score probabilities (M, K) against class numbers (M,)."""
    labels = [str(label) for label in range(probabilities.shape[1])]
    return score(probabilities, labels, [labels[at] for at in wanted.tolist()], seconds)


def calibration_error(confidences: Sequence[float], right: Sequence[bool]) -> float:
    """Return the mean gap between confidence and accuracy, weighted by the texts in each bin."""
    gaps = [0.0] * BINS
    for confidence, is_right in zip(confidences, right, strict=True):
        gaps[min(int(confidence * BINS), BINS - 1)] += is_right - confidence
    return sum(map(abs, gaps)) / len(right)


@dataclass(frozen=True)
class Interval:
    """A mean, and its interval (95 %, Student's t) over splits; None for one split."""

    mean: float
    half_width: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        """Compute it from one value of each split."""
        count = len(values)
        if count == 1:
            return cls(values[0], None)
        quantile = float(stats.t.ppf((1 + _CONFIDENCE) / 2, count - 1))
        return cls(statistics.fmean(values), quantile * statistics.stdev(values) / math.sqrt(count))

    def __str__(self) -> str:
        return f"{self.mean:.3f}" + ("" if self.half_width is None else f" ± {self.half_width:.3f}")


BySplit = Mapping[int, Scores]
"""Scores of one contestant on one row, by the number of the split."""


def differences(one: BySplit, other: BySplit) -> list[float]:
    """Return the differences in accuracy on the splits that both have."""
    return [one[split].accuracy - other[split].accuracy for split in sorted(one.keys() & other)]


def are_below(found: Sequence[float], least: float) -> bool:
    """Return whether paired differences are below a limit by more than two errors.

    One split has no error, and decides nothing.
    """
    if len(found) < 2:
        return False
    error = statistics.stdev(found) / math.sqrt(len(found))
    return statistics.fmean(found) < least - 2 * error


def above(one: BySplit, other: BySplit) -> list[bool]:
    """Say for each split that both have whether the log loss is above the other's."""
    return [one[split].log_loss > other[split].log_loss for split in sorted(one.keys() & other)]


def summary(row: Mapping[str, BySplit], name: str, reference: Sequence[str]) -> dict[str, Any]:
    """Sum up a contestant's splits of a row.

    Args:
        row: the scores of all contestants.
        name: of the contestant.
        reference: names of contestants; the better of them by mean accuracy is the one to reach.
    """
    own = row[name]
    better = better_of(row, reference)
    over_zero = above(own, row["zero-shot"]) if "zero-shot" in row else []
    return {
        "splits": len(own),
        "accuracy": Interval.of([s.accuracy for s in own.values()]),
        "better": better,
        "accuracy - better": _paired(own, row[better]) if better else None,
        "log loss": Interval.of([s.log_loss for s in own.values()]),
        "log loss above zero-shot's": statistics.fmean(over_zero) if over_zero else None,
        "calibration error": Interval.of([s.calibration_error for s in own.values()]),
        "seconds": statistics.median(s.seconds for s in own.values()),
    }


def better_of(row: Mapping[str, BySplit], reference: Sequence[str]) -> str | None:
    """Name the contestant of `reference` with the highest mean accuracy; None if none has run."""
    present = [name for name in reference if row.get(name)]
    return max(
        present, key=lambda n: statistics.fmean(s.accuracy for s in row[n].values()), default=None
    )


def _paired(own: BySplit, other: BySplit) -> Interval | None:
    found = differences(own, other)
    return Interval.of(found) if found else None
