"""The report of an adaptation: its curve, its held-out scores, and why it stopped."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from cog_adapt.runner.heads.decision import BASE, HeadDecision
from gradient_check.phases.replicas import Tensors

_UNSAID = {"trunk": "", "halved_at": None, "taken_back": ()}


@dataclass(frozen=True)
class Step:
    """One optimizer step.

    Attributes:
        number: 1 for the first.
        of: the recipe's `max_steps`.
        loss: mean over the batch, before the update.
        gradient_norm: before clipping.
        learning_rate: of this step.
        seconds: since the adaptation began.
        skipped: attempts before it that overflowed in float16; they do not count as steps.
        halved_to: tokens of a part from this step on, since memory ran out in it; 0: memory
            sufficed.
    """

    number: int
    of: int
    loss: float
    gradient_norm: float
    learning_rate: float
    seconds: float
    skipped: int = 0
    halved_to: int = 0


@dataclass(frozen=True)
class Snapshot:
    """The model as an adaptation has it before its end, with which a request is answered early.

    Attributes:
        tensors: of an adapter, on the CPU.
        labels: the label set.
        method: of these tensors.
        decision: between them and the base, before any step; None after some steps.
        step: the number of steps taken.
        of: the recipe's `max_steps`.
        scales: as an adapter's.
        newest_only: of all snapshots of a run, the newest alone is kept for its followers.
    """

    newest_only: ClassVar[bool] = True
    tensors: Tensors
    labels: tuple[str, ...]
    method: str
    decision: HeadDecision | None = None
    step: int = 0
    of: int = 0
    scales: Mapping[str, float] = field(default_factory=dict)

    @property
    def is_base(self) -> bool:
        """Whether the base answers better than these tensors."""
        return self.decision is not None and self.decision.chosen == BASE

    @property
    def expected(self) -> str:
        """What the answers are worth, in words."""
        return self.decision.sentence if self.decision else f"after {self.step} of {self.of} steps"


@dataclass(frozen=True)
class TakenBack:
    """Steps that multiplied the loss, and were taken again at a lower rate.

    Attributes:
        learning_rate: of these steps.
        step: the step in which the loss was found so high, from 1.
        first_loss: of the first step.
        loss: the high loss; None if it was not finite.
    """

    learning_rate: float
    step: int
    first_loss: float
    loss: float | None


@dataclass(frozen=True)
class HeldOut:
    """The held-out examples' mean loss and mean score after `step` steps."""

    step: int
    loss: float
    score: float


@dataclass(frozen=True)
class AdaptationReport:
    """The course and the result of one adaptation.

    Attributes:
        seconds: wall time, ticks of others included.
        trunk: the result of storing the frozen blocks' outputs; "" if it was not tried.
        halved_at: the step in which memory ran out, and from which on parts are half as large,
            counted over all runs of the adaptation; None: memory sufficed.
        taken_back: the runs whose automatic rate was too high, in order.
        bit_for_bit: whether the same adaptation gives the same bits there: on CUDA with
            DETERMINISTIC=1 only.
    """

    method: str
    trained_parameters: int
    learning_rate: float
    seed: int
    precision: str
    examples: int
    held_out_examples: int
    steps: tuple[Step, ...]
    scores: tuple[HeldOut, ...]
    best_step: int
    stop_reason: str
    seconds: float
    trunk: str = ""
    halved_at: int | None = None
    bit_for_bit: bool = True
    decision: HeadDecision | None = None
    taken_back: tuple[TakenBack, ...] = ()

    @property
    def score_before(self) -> float | None:
        """The expected score of the base, or the start; None if unknown."""
        if self.decision is None:
            return self.held_out_before
        return self.decision.before.score if self.decision.before else self.held_out_before

    @property
    def score_after(self) -> float | None:
        """The expected score of the returned adapter."""
        if self.decision is None:
            return self.held_out_after
        return self.decision.after.score if self.decision.after else self.held_out_after

    @property
    def held_out_before(self) -> float | None:
        """The mean score of the held-out examples before the first step; None without any."""
        return self.scores[0].score if self.scores else None

    @property
    def held_out_after(self) -> float | None:
        """Mean held-out score of the tensors that were returned."""
        return next((s.score for s in self.scores if s.step == self.best_step), None)

    def to_json(self) -> dict[str, Any]:
        """Plain values, the curves as lists; a field of `_UNSAID` only if it says something."""
        whole = {
            name: value
            for name, value in asdict(self).items()
            if (name, value) not in _UNSAID.items()
        }
        steps, scores = whole.pop("steps"), whole.pop("scores")
        whole["decision"] = self.decision.to_json() if self.decision else None
        return whole | {
            "held_out_before": self.held_out_before,
            "held_out_after": self.held_out_after,
            "steps": len(steps),
            "losses": [round(step["loss"], 6) for step in steps],
            "gradient_norms": [round(step["gradient_norm"], 6) for step in steps],
            "skipped": sum(step["skipped"] for step in steps),
            "held_out_curve": list(scores),
        }
