"""Which of several ways to answer is expected to be best, and how good it is expected to be.

This module knows no model: a candidate is what its answers to unseen examples were worth.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from cog_adapt.runner.heads.calibration import effective_count

_FEWEST_FOR_GRADIENTS = 40.0
_ADDED_ANSWERS = 4  # in the error of a share
BASE, CLOSED, GRADIENTS, MIDDLE = "base", "closed form", "gradients", "middle"
AVERAGE = "average"
_WORDS = {
    BASE: "nothing that was learned beats the base",
    CLOSED: "a head in closed form answers best; gradient steps would not pay",
    GRADIENTS: "gradient steps answer best",
    MIDDLE: "the middle between where gradient steps began and ended answers best",
    AVERAGE: "so few examples do not show which is better, so a closed form and gradient steps "
    "are averaged",
}


@dataclass(frozen=True)
class CandidateScore:
    """What the answers of one way to examples that it has not seen were worth.

    Attributes:
        loss: mean of the losses; each label counts the same.
        score: mean accuracy, or R² for numbers.
        error: standard error of the score.
        wrong: the share of the examples' labels that look wrong by these answers.
    """

    loss: float
    score: float
    error: float
    wrong: float = 0.0

    @classmethod
    def of(
        cls,
        losses: Tensor,
        scores: Tensor,
        weights: Tensor,
        wrong: float = 0.0,
        is_share: bool = False,
    ) -> "CandidateScore":
        """Average losses and scores (N,) by weights (N,).

        Args:
            losses: of the answers.
            scores: of the answers.
            weights: of the answers.
            wrong: the share of the examples' labels that look wrong.
            is_share: whether the score is a share of right answers. Then it is between 0 and 1,
                also where wrong labels are taken into account, and its error counts four answers
                more, half of them right: else 16 right answers of 16 would have no error (Agresti
                & Coull 1998).
        """
        shares = weights / weights.sum()
        score = (shares * scores).sum()
        count = max(2.0, effective_count(weights))
        added = _ADDED_ANSWERS if is_share else 0
        center = (count * score + added / 2) / (count + added)
        squares = count * (shares * (scores - center).square()).sum()
        squares = squares + added / 2 * (center.square() + (1 - center).square())
        error = (squares / (count + added - 1) / count).sqrt()
        if is_share:
            score = score.clamp(0, 1)
        loss = float((shares * losses).sum())
        return cls(loss=loss, score=float(score), error=float(error), wrong=wrong)


@dataclass(frozen=True)
class HeadDecision:
    """What answers from now on, and why.

    Attributes:
        chosen: BASE, CLOSED, GRADIENTS, MIDDLE or AVERAGE.
        why: in a sentence.
        metric: what the scores are.
        before: of the base; None where nothing could be estimated.
        after: of what was chosen.
        candidates: all of them, on the same examples.
    """

    chosen: str
    why: str
    metric: str
    before: CandidateScore | None = None
    after: CandidateScore | None = None
    candidates: Mapping[str, CandidateScore] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values, with the sentence that a caller reads."""
        return {
            "chosen": self.chosen,
            "why": self.why,
            "metric": self.metric,
            "expected": self.sentence,
            "before": _rounded(self.before),
            "after": _rounded(self.after),
            "candidates": {name: _rounded(each) for name, each in self.candidates.items()},
        }

    @property
    def sentence(self) -> str:
        """The estimate in words, as in "expected accuracy about .84 ± .03, was .67"."""
        if self.before is None or self.after is None:
            return "no estimate: there are too few examples to leave some out"
        expected = (
            f"expected {self.metric} about {_short(self.after.score)} "
            f"± {_short(self.after.error)}, was {_short(self.before.score)}"
        )
        wrong = self.after.wrong
        return f"{expected}; about {wrong:.0%} of the labels look wrong" if wrong else expected


def unknown(metric: str) -> HeadDecision:
    """Decide without an estimate: gradients add to the closed form."""
    return HeadDecision(GRADIENTS, "with so few examples gradient steps usually pay", metric)


def asked_for(first: HeadDecision) -> HeadDecision:
    """Return the decision where a head in closed form was asked for, whatever it is worth."""
    why = "a head in closed form was asked for"
    return replace(first, chosen=CLOSED, why=why, after=first.candidates.get(CLOSED))


def of_few(first: HeadDecision) -> HeadDecision:
    """Return the decision where examples are too few to tell the base from a closed form.

    The names that the base answers by are a part of the closed form, and an example that is left
    out moves the means of so few by so much that they look worse than they are.
    """
    if first.chosen != BASE:
        return first
    return replace(first, chosen=CLOSED, why=_WORDS[CLOSED], after=first.candidates[CLOSED])


def of_head_alone(first: HeadDecision) -> HeadDecision:
    """Return the decision where steps would train nothing but the head."""
    if first.chosen == BASE:
        return first
    why = "the task's own method trains the head alone, which a closed form fits without steps"
    return replace(first, chosen=CLOSED, why=why)


def decide(
    candidates: Mapping[str, CandidateScore], metric: str, count: float = math.inf
) -> HeadDecision:
    """Choose the least loss among candidates that answered the same examples.

    Args:
        candidates: by name; the base is one of them. An average is there where none is to be
            chosen, and then it is what answers.
        metric: what the scores are.
        count: of the examples; few of them do not show when gradients alone are too sure.
    """
    is_middle_safer = MIDDLE in candidates and count < _FEWEST_FOR_GRADIENTS
    allowed = [n for n in candidates if not (n == GRADIENTS and is_middle_safer)]
    if AVERAGE in candidates:
        allowed = [AVERAGE]
    chosen = min(allowed, key=lambda name: candidates[name].loss)
    return HeadDecision(
        chosen=chosen,
        why=_WORDS[chosen],
        metric=metric,
        before=candidates[BASE],
        after=candidates[chosen],
        candidates=candidates,
    )


def _rounded(candidate: CandidateScore | None) -> dict[str, float] | None:
    if candidate is None:
        return None
    return {name: round(value, 4) for name, value in vars(candidate).items()}


def _short(value: float) -> str:
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")
