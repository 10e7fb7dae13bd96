"""Chooses the candidate that is expected to answer best, and estimates its score.

This module knows no model: a candidate is scored by its answers to unseen examples.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from cog_adapt.runner.heads.calibration import effective_count
from cog_adapt.runner.heads.suspects import Suspect

_FEWEST_FOR_GRADIENTS = 40.0
_ADDED_ANSWERS = 4  # answers added to the count in a share's standard error
BASE, CLOSED, GRADIENTS, MIDDLE = "base", "closed form", "gradients", "middle"
AVERAGE = "average"
START, HEAD_STEPS = "start", "head"
_WORDS = {
    BASE: "nothing that was learned beats the base",
    CLOSED: "a head in closed form answers best; gradient steps would not pay",
    GRADIENTS: "gradient steps answer best",
    MIDDLE: "the middle between where gradient steps began and ended answers best",
    AVERAGE: "so few examples do not show which is better, so a closed form and gradient steps "
    "are averaged",
    START: "what the task starts with, before any step, answers best",
    HEAD_STEPS: "steps on the head alone answer best",
}


@dataclass(frozen=True)
class CandidateScore:
    """The quality of one candidate's answers to examples that it has not seen.

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
            is_share: whether the score is a share of right answers. Then it lies between 0 and 1,
                also after the correction for wrong labels, and its error counts four answers more,
                half of them right: else 16 right answers of 16 would have no error (Agresti & Coull
                1998).
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
    """The choice of a candidate, and its reason.

    Attributes:
        chosen: BASE, CLOSED, GRADIENTS, MIDDLE or AVERAGE; START, HEAD_STEPS or GRADIENTS of a
            task without features.
        why: in a sentence.
        metric: the name of the scores.
        before: the base's score; None if it could not be estimated.
        after: the chosen candidate's score.
        candidates: all of them, on the same examples.
        no_estimate: why there is no estimate, if there is none.
        suspects: the examples whose labels look wrong.
    """

    chosen: str
    why: str
    metric: str
    before: CandidateScore | None = None
    after: CandidateScore | None = None
    candidates: Mapping[str, CandidateScore] = field(default_factory=dict)
    no_estimate: str = "there are too few examples to leave some out"
    suspects: tuple[Suspect, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON values, with the sentence for the caller."""
        suspects = [each._asdict() for each in self.suspects]
        return {
            "chosen": self.chosen,
            "why": self.why,
            "metric": self.metric,
            "expected": self.sentence,
            "before": _rounded(self.before),
            "after": _rounded(self.after),
            "candidates": {name: _rounded(each) for name, each in self.candidates.items()},
            **({"suspects": suspects} if suspects else {}),
        }

    @property
    def sentence(self) -> str:
        """The estimate in words, as in "expected accuracy about .84 ± .03, was .67"."""
        if self.before is None or self.after is None:
            return f"no estimate: {self.no_estimate}"
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
    """Return the decision for a request that asks for a head in closed form."""
    why = "a head in closed form was asked for"
    return replace(first, chosen=CLOSED, why=why, after=first.candidates.get(CLOSED))


def of_few(first: HeadDecision) -> HeadDecision:
    """Return the decision if examples are too few to compare the base with a closed form.

    The base's label names are a part of the closed form, and leaving out one example moves such
    small means so far that they look worse than they are.
    """
    if first.chosen != BASE:
        return first
    return replace(first, chosen=CLOSED, why=_WORDS[CLOSED], after=first.candidates[CLOSED])


def of_head_alone(first: HeadDecision) -> HeadDecision:
    """Return the decision if steps would train only the head."""
    if first.chosen == BASE:
        return first
    why = "the task's own method trains the head alone, which a closed form fits without steps"
    return replace(first, chosen=CLOSED, why=why)


def decide(
    candidates: Mapping[str, CandidateScore], metric: str, count: float = math.inf
) -> HeadDecision:
    """Choose the least loss among candidates that answered the same examples.

    Args:
        candidates: by name; the base is one of them. An average, if there is one, is always chosen.
        metric: the name of the scores.
        count: of the examples; few of them do not reveal overconfident gradients.
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


def of_stages(candidates: Mapping[str, CandidateScore], metric: str) -> HeadDecision:
    """Choose the least loss among the stages of a task without features, of which START is one."""
    chosen = min(candidates, key=lambda name: candidates[name].loss)
    return HeadDecision(
        chosen=chosen,
        why=_WORDS[chosen],
        metric=metric,
        before=candidates[START],
        after=candidates[chosen],
        candidates=candidates,
    )


def not_compared(metric: str, no_estimate: str) -> HeadDecision:
    """Return the decision for what a task starts with, while nothing else is known."""
    return HeadDecision(START, _WORDS[START], metric, no_estimate=no_estimate)


def _rounded(candidate: CandidateScore | None) -> dict[str, float] | None:
    if candidate is None:
        return None
    return {name: round(value, 4) for name, value in vars(candidate).items()}


def _short(value: float) -> str:
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")
