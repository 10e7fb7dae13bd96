"""Which of its goals a contestant meets: on each row, and over the splits of all rows together."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.quality.contestants import REFERENCE, ZERO_SHOT
from bench.quality.scores import BySplit, above, better_of, differences
from bench.report import Columns, Report
from bench.sets import load
from bench.sets.rows import Row

LEAST_DIFFERENCE = -0.015  # in accuracy, from the better of the reference
MOST_ABOVE = 0.02  # of all splits, with a log loss above zero-shot's
MOST_CALIBRATION_ERROR = 0.08
_LEAST_TEST_TEXTS, _LEAST_EXAMPLES = 300, 4  # with fewer, a calibration error is not judged

Scores = Mapping[str, BySplit]
"""The scores of one row, by contestant."""


@dataclass(frozen=True)
class Verdict:
    """The number that decides about a goal, and whether the goal is met."""

    value: float
    met: bool

    def __str__(self) -> str:
        return f"{self.value:.3f} {'met' if self.met else 'MISSED'}"


def accuracy(row: Row, scores: Scores, name: str) -> Verdict | None:
    """Compare with the better of the reference, on the splits that both have."""
    better = better_of(scores, REFERENCE)
    found = differences(scores[name], scores[better]) if better else []
    if not found:
        return None
    mean = statistics.fmean(found)
    return Verdict(mean, mean >= LEAST_DIFFERENCE)


def log_loss(row: Row, scores: Scores, name: str) -> Verdict | None:
    """Compare the mean with zero-shot's, on the splits that both have."""
    own, zero = scores[name], scores.get(ZERO_SHOT, {})
    found = [own[split].log_loss - zero[split].log_loss for split in own.keys() & zero]
    if not found:
        return None
    mean = statistics.fmean(found)
    return Verdict(mean, mean <= 0)


def calibration(row: Row, scores: Scores, name: str) -> Verdict | None:
    """Judge the calibration error if the row has enough test texts and examples."""
    texts = load(row.set_name)
    tested = texts.test_per_label * len(texts.labels)
    if tested < _LEAST_TEST_TEXTS or row.fewest < _LEAST_EXAMPLES:
        return None
    error = statistics.fmean(s.calibration_error for s in scores[name].values())
    return Verdict(error, error <= MOST_CALIBRATION_ERROR)


GOALS: Mapping[str, Callable[[Row, Scores, str], Verdict | None]] = {
    f"accuracy - better >= {LEAST_DIFFERENCE}": accuracy,
    "log loss - zero-shot's <= 0": log_loss,
    f"calibration error <= {MOST_CALIBRATION_ERROR}": calibration,
}


def all_splits(results: Mapping[str, Scores], name: str) -> Verdict | None:
    """Judge the share of splits, of all rows together, whose log loss is above zero-shot's."""
    found = [
        is_above
        for scores in results.values()
        if name in scores and ZERO_SHOT in scores
        for is_above in above(scores[name], scores[ZERO_SHOT])
    ]
    if not found:
        return None
    share = statistics.fmean(found)
    return Verdict(share, share <= MOST_ABOVE)


def goals_of(rows: Sequence[Row], results: Mapping[str, Scores], name: str) -> Report:
    """Make the table of a contestant's goals."""
    table = [
        {"row": row.name, **{goal: judge(row, scores, name) for goal, judge in GOALS.items()}}
        for row in rows
        if name in (scores := results[row.name])
    ]
    columns: Columns = {"row": str, **dict.fromkeys(GOALS, str)}
    missed = [r["row"] for r in table if any(r[g] and not r[g].met for g in GOALS)]  # type: ignore[union-attr]
    facts = {
        "rows that miss a goal": ", ".join(map(str, missed)) or "none",
        f"splits with a log loss above zero-shot's, at most {MOST_ABOVE:.0%}": str(
            all_splits(results, name) or "not known"
        ),
    }
    return Report(f"Goals of {name}", columns, table, facts)
