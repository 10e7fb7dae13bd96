"""Which of several ways to answer is expected to be best, and how good it is expected to be.

This module knows no model: a candidate is what its answers to unseen examples were worth.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from cog_adapt.runner.calibration import effective_count

BASE, CLOSED, GRADIENTS, MIDDLE = "base", "closed form", "gradients", "middle"
_WORDS = {
    BASE: "nothing that was learned beats the base",
    CLOSED: "a head in closed form answers best; gradient steps would not pay",
    GRADIENTS: "gradient steps answer best",
    MIDDLE: "the middle between the closed form and gradient steps answers best",
}


@dataclass(frozen=True)
class Candidate:
    """What the answers of one way to examples that it has not seen were worth.

    Attributes:
        loss: mean of the losses; each label counts the same.
        score: mean accuracy, or R² for numbers.
        error: standard error of the score.
    """

    loss: float
    score: float
    error: float

    @classmethod
    def of(cls, losses: Tensor, scores: Tensor, weights: Tensor) -> "Candidate":
        """Average losses and scores (N,) by weights (N,)."""
        shares = weights / weights.sum()
        score = (shares * scores).sum()
        count = max(2.0, effective_count(weights))
        spread = (shares * (scores - score).square()).sum() * count / (count - 1)
        return cls(float((shares * losses).sum()), float(score), float((spread / count).sqrt()))


@dataclass(frozen=True)
class Decision:
    """What answers from now on, and why.

    Attributes:
        chosen: BASE, CLOSED, GRADIENTS or MIDDLE.
        why: in a sentence.
        metric: what the scores are.
        before: of the base; None where nothing could be estimated.
        after: of what was chosen.
        candidates: all of them, on the same examples.
    """

    chosen: str
    why: str
    metric: str
    before: Candidate | None = None
    after: Candidate | None = None
    candidates: Mapping[str, Candidate] = field(default_factory=dict)

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
        return (
            f"expected {self.metric} about {_short(self.after.score)} "
            f"± {_short(self.after.error)}, was {_short(self.before.score)}"
        )


def unknown(metric: str) -> Decision:
    """Decide without an estimate: gradients add to the closed form."""
    return Decision(GRADIENTS, "with so few examples gradient steps usually pay", metric)


def decide(candidates: Mapping[str, Candidate], metric: str) -> Decision:
    """Choose the least loss among candidates that answered the same examples."""
    chosen = min(candidates, key=lambda name: candidates[name].loss)
    return Decision(
        chosen, _WORDS[chosen], metric, candidates[BASE], candidates[chosen], candidates
    )


def _rounded(candidate: Candidate | None) -> dict[str, float] | None:
    if candidate is None:
        return None
    return {name: round(value, 4) for name, value in vars(candidate).items()}


def _short(value: float) -> str:
    return re.sub(r"^(-?)0\.", r"\1.", f"{value:.2f}")
