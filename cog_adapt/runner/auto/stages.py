"""`method=auto` of a task without features that starts its head from the examples.

What it starts with answers at once. Steps on the head, then steps by the task's own method, are
compared with it on examples that were left out, as long as these are answered better; the best is
learned from all examples.
"""

import re
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.bounded_rate import adapt_within_bounds
from cog_adapt.runner.adaptation.report import AdaptationReport, Snapshot, Step
from cog_adapt.runner.adaptation.scoring import scores_of
from cog_adapt.runner.adaptation.start import Checkpoints, Start
from cog_adapt.runner.auto.cross_answers import trained_on_fold
from cog_adapt.runner.auto.run import adapt_without_features, snapshot_of
from cog_adapt.runner.auto.start import AutoResult
from cog_adapt.runner.config import HEAD, Recipe
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.heads.decision import (
    GRADIENTS,
    HEAD_STEPS,
    START,
    CandidateScore,
    HeadDecision,
    not_compared,
    of_stages,
    unknown,
)
from cog_adapt.runner.heads.folds import folds
from cog_adapt.runner.task.task import Task
from gradient_check.phases.determinism import is_repeatable
from gradient_check.phases.replicas import Tensors

_FOLDS = 4
_FOLD_STEPS = 0.25  # share of the steps, so that the runs of a stage cost what the last one costs
_FOLD_SECONDS = 0.5  # share of a budget after which no more is compared
# Standard errors in half of an interval. Student's t of eight answers is 1.4 for 80 %, but folds
# share examples, and examples are seldom drawn at random: 2.6 held 80 % of 24 typefaces.
_OF_80_PERCENT = 2.6
_MOST_ANSWERED = 128  # examples, however many there are: each costs a forward in every stage
_METRIC = "score"

Ticks = Generator[Step | Snapshot | None, None, AutoResult]


class Starting(Protocol):
    """Makes the start of some examples by a recipe."""

    def __call__(
        self, examples: Sequence[Example], *, recipe: Recipe
    ) -> Generator[None, None, Start]:
        """Return the start, some labels a tick."""


@dataclass(frozen=True)
class Unfeatured:
    """What `auto` begins with where a task has no features.

    Attributes:
        starting: makes starts.
        blind: a start of the task's own method that has seen no example; it has them decoded.
        sent: the examples as they were sent.
        checkpoints: of the steps on all examples; None: they save no state.
    """

    starting: Starting
    blind: Start
    sent: Sequence[Example]
    checkpoints: Checkpoints | None

    def begin(self, chosen: Sequence[int], method: str) -> Generator[None, None, Start]:
        """Return the start of the examples at these positions by a method."""
        blind = self.blind
        recipe = replace(blind.training.recipe, method=method)
        start = yield from self.starting([self.sent[i] for i in chosen], recipe=recipe)
        start = start.with_examples([self.examples[i] for i in chosen])
        return replace(start.with_kept_rows(blind.data.kept_rows), began=blind.began)

    def last_start(self, method: str) -> Generator[None, None, Start]:
        """Return the start of the steps on all examples.

        The state of a run that was killed counts if its stage was the same: a clock may have
        chosen another.
        """
        start = yield from self.begin(range(len(self.sent)), method)
        if self.checkpoints is None:
            return start
        resumed = self.checkpoints.added_to(start)
        state = resumed.resumption.state
        if state is None or state.tensors.keys() == start.trained.tensors.keys():
            return resumed
        return replace(resumed, resumption=replace(resumed.resumption, state=None))

    @property
    def examples(self) -> Sequence[Example]:
        """All of them."""
        return self.blind.data.examples

    @property
    def methods(self) -> dict[str, str]:
        """The methods that take steps, by the name of the stage."""
        own = self.blind.training.recipe.method
        return {HEAD_STEPS: HEAD} | ({} if own == HEAD else {GRADIENTS: own})

    def is_over(self, share: float = 1.0) -> bool:
        """Return whether a share of the budget is over."""
        budget = self.blind.training.recipe.budget_seconds
        return budget is not None and self.seconds >= share * budget

    @property
    def seconds(self) -> float:
        """Since the adaptation began."""
        began = self.blind.began
        return 0.0 if began is None else time.monotonic() - began


def adapt_unfeatured(given: Unfeatured) -> Ticks:
    """Adapt by stages if the task's examples start a head, else by its own method alone.

    Yields what the task starts with, then each step on all examples (None: other ticks).

    Raises:
        AdaptationError: a loss or gradient was not finite, or memory ran out.
    """
    if _starts_a_head(given.blind) and type(given.blind.task).features is Task.features:
        return (yield from _adapt_in_stages(given))
    start = yield from given.last_start(given.blind.training.recipe.method)
    return (yield from adapt_without_features(start))


def _starts_a_head(blind: Start) -> bool:
    task = blind.task
    is_started = type(task).start is not Task.start
    return is_started and any(re.fullmatch(task.head, name) for name in blind.trained.tensors)


def _adapt_in_stages(given: Unfeatured) -> Ticks:
    start = yield from given.begin(range(len(given.sent)), HEAD)
    first = not_compared(_METRIC, "nothing was compared with it yet")
    tensors = {name: tensor.cpu() for name, tensor in start.trained.tensors.items()}
    yield snapshot_of(first, tensors, start)
    if start.training.recipe.stop_after == 0:
        return AutoResult(
            tensors, _without_steps(given, start, decision=first, reason="stop_after")
        )
    decision = yield from _decided(given, start)
    if given.is_over():
        return AutoResult(
            tensors, _without_steps(given, start, decision=first, reason="budget_seconds")
        )
    if decision.chosen == START:
        return AutoResult(
            tensors, _without_steps(given, start, decision=decision, reason="decided")
        )
    start = yield from given.last_start(given.methods.get(decision.chosen, HEAD))
    tensors, report = yield from adapt_within_bounds(start)
    return AutoResult(tensors, replace(report, decision=decision, seconds=given.seconds))


def _decided(given: Unfeatured, start: Start) -> Generator[None, None, HeadDecision]:
    """Compare the stages on examples that were left out, each with the one before it."""
    targets = [repr(each.target) for each in given.examples]
    parts = [
        (train, _spread(left_out, _MOST_ANSWERED // _FOLDS))
        for train, left_out in folds(targets, start.training.recipe.seed, _FOLDS)
    ]
    if start.training.recipe.hold_out:
        return _unsaid("the examples that are held out are scored in its place")
    if not parts:
        return unknown(_METRIC)
    found: dict[str, CandidateScore] = {}
    for name, method in {START: "", **given.methods}.items():
        answered = yield from _answered(given, parts, method)
        if answered is None:
            return _unsaid("half of the time was over before the stages were compared")
        losses, scores = answered.unbind(1)
        score = CandidateScore.of(losses, scores, torch.ones(len(losses)))
        found[name] = replace(score, error=_OF_80_PERCENT * score.error)
        if found[name].loss > min(each.loss for each in found.values()):
            break
    return of_stages(found, _METRIC)


def _unsaid(reason: str) -> HeadDecision:
    why = "the task's own method is taken where the stages are not compared"
    return replace(unknown(_METRIC), why=why, no_estimate=reason)


def _spread(positions: Tensor, most: int) -> Tensor:
    """Return at most so many of these, at even distances: labels may stand in order."""
    return positions[:: -(-len(positions) // most)]


def _answered(
    given: Unfeatured, parts: Sequence[tuple[Tensor, Tensor]], method: str
) -> Generator[None, None, Tensor | None]:
    """Return losses and scores of examples by models that have not seen them, (N, 2).

    None if the time for it is over.
    """
    found = torch.zeros(len(given.examples), 2, dtype=torch.float64)
    is_seen = torch.zeros(len(given.examples), dtype=torch.bool)
    for train, left_out in parts:
        if given.is_over(_FOLD_SECONDS):
            return None
        start = yield from given.begin(train.tolist(), method or HEAD)
        tensors: Tensors = dict(start.trained.tensors)
        if method:
            tensors = yield from trained_on_fold(_of_fold(start))
        found[left_out] = yield from scores_of(
            start.with_examples(given.examples), tensors, left_out.tolist()
        )
        is_seen[left_out] = True
    return found[is_seen]


def _of_fold(start: Start) -> Start:
    """Return the start of a fold, with fewer steps and less time."""
    recipe = start.training.recipe
    steps = max(1, round(_FOLD_STEPS * recipe.max_steps))
    budget = recipe.budget_seconds and _FOLD_SECONDS * recipe.budget_seconds
    return start.with_recipe(replace(recipe, max_steps=steps, budget_seconds=budget))


def _without_steps(
    given: Unfeatured, start: Start, decision: HeadDecision, reason: str
) -> AdaptationReport:
    """Return the report of what the task starts with."""
    tensors = start.trained.tensors.values()
    return AdaptationReport(
        method=HEAD,
        trained_parameters=sum(tensor.numel() for tensor in tensors),
        learning_rate=start.training.learning_rate,
        seed=start.training.recipe.seed,
        precision=str(start.training.precision),
        examples=len(given.examples),
        held_out_examples=0,
        steps=(),
        scores=(),
        best_step=0,
        stop_reason=reason,
        seconds=given.seconds,
        bit_for_bit=is_repeatable(start.training.precision.device),
        decision=decision,
    )
