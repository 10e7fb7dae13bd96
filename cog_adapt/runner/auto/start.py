"""The start and the result of `method=auto`."""

import operator
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.report import AdaptationReport
from cog_adapt.runner.adaptation.start import Checkpoints, RowLookup, Start
from cog_adapt.runner.auto.head import FeatureLookup, HeadNames
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.errors import InputError
from cog_adapt.runner.heads.closed_form import ClosedForm
from cog_adapt.runner.heads.decision import BASE, CLOSED, HeadDecision
from cog_adapt.runner.heads.folds import folds
from cog_adapt.runner.heads.linear_head import LinearHead
from cog_adapt.runner.heads.objective import Labels, Numbers, Objective
from cog_adapt.runner.inference.answers import Phase
from gradient_check.phases.determinism import is_repeatable
from gradient_check.phases.replicas import Tensors

_RATE = 2.0  # times the usual rate: the steps are few, and begin near their goal
_FEWEST_STEPS = 20
_EXAMPLES_A_STEP = 8
_AVERAGED_STEPS = 0.6  # share of the steps, if gradients are averaged with the closed form
_KNOWN_STEPS = 0.5  # share of the steps, if the run starts from an adapter of most of the examples
_LEAST_SECONDS = 0.001
# A fit of these sizes takes some seconds: its cost rises with powers of them.
_MOST_EXAMPLES, _MOST_OUTPUTS, _MOST_WIDTH = 10_000, 200_000, 1_024


class InputLookup(FeatureLookup, RowLookup, Protocol):
    """Looks up the features and the encoded rows of inputs that recent requests had."""


@dataclass(frozen=True)
class AutoResult:
    """The result of `auto`.

    Attributes:
        tensors: of the adapter; None: the base answers best.
        report: of the steps on all examples, and of the decision; its method is the winner's.
        from_known: whether the steps began from a known adapter.
    """

    tensors: Tensors | None
    report: AdaptationReport
    from_known: bool = False


@dataclass(frozen=True)
class AutoStart:
    """The start of `auto`.

    Attributes:
        start: of the task's own method, with all examples.
        names: the head's.
        objective: judges the head's outputs.
        features: of the examples, (N, D).
        began: the start of the adaptation, by `time.monotonic`.
        asked: the number of examples in the request; more than there are features if the budget
            ended early.
        known: tensors of an adapter that has learned most of the examples.
        checkpoints: of the steps on all examples; None: they save no state.
    """

    start: Start
    phase: Phase
    names: HeadNames
    objective: Objective
    features: Tensor
    began: float
    asked: int
    known: Mapping[str, Tensor] = field(default_factory=dict)
    checkpoints: Checkpoints | None = None

    @cached_property
    def folds(self) -> list[tuple[Tensor, Tensor]]:
        """Pairs of positions, to train on and to answer; empty if there are too few examples."""
        return folds(self.objective.groups, self.start.training.recipe.seed)

    @property
    def entries(self) -> int:
        """Examples times labels: the size of a fit."""
        return len(self.features) * max(1, len(self.start.data.labels))

    @property
    def steps(self) -> int:
        """Steps on all examples: some for each example, and at most the requested number.

        A run that starts from the head without any example needs more steps. An average needs fewer
        steps; an average is always made, so it must take at most as long as a choice.
        """
        most = self.start.training.recipe.max_steps
        if self.objective.averages:
            return max(1, int(most * _AVERAGED_STEPS))
        if self.objective.begins_with_prior:
            return most
        return min(most, max(_FEWEST_STEPS, len(self.features) // _EXAMPLES_A_STEP))

    @property
    def below(self) -> dict[str, Tensor]:
        """The known adapter's tensors below the head; none if it trains other layers.

        Its head is not used: it was fitted to its own labels, at a scale from which gradients learn
        little.
        """
        below, wanted = self._below(self.known), self._below(self.start.trained.tensors)
        shapes = ({name: tensor.shape for name, tensor in each.items()} for each in (below, wanted))
        return below if operator.eq(*shapes) else {}

    @property
    def trains_head_alone(self) -> bool:
        """Whether the task's own method trains the head alone."""
        return not self._below(self.start.trained.tensors)

    def _below(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        head = re.compile(self.start.task.head)
        return {name: tensor for name, tensor in tensors.items() if not head.fullmatch(name)}

    @property
    def rate(self) -> float:
        """The learning rate: the caller's, or the usual one times `_RATE`."""
        own = self.start.training.recipe.learning_rate
        near = not self.objective.begins_with_prior
        return own or self.start.training.learning_rate * (_RATE if near else 1.0)

    @property
    def seconds_left(self) -> float | None:
        """The seconds that are left of the time budget; None without a budget."""
        budget = self.start.training.recipe.budget_seconds
        if budget is None:
            return None
        return max(_LEAST_SECONDS, budget - (time.monotonic() - self.began))

    def beginning(self, chosen: Tensor, form: ClosedForm, steps: int) -> Start:
        """Begin with a head in closed form, on some examples."""
        start, objective = self.start, self.objective
        head = self.names.write(objective.begin(self.features, chosen, form))
        device = start.training.precision.device
        left = self.seconds_left
        tensors = dict(start.trained.tensors) | {name: t.to(device) for name, t in head.items()}
        return replace(
            start,
            trained=replace(start.trained, tensors=tensors),
            data=replace(
                start.data,
                examples=[start.data.examples[i] for i in chosen.tolist()],
                weights=objective.weights(form, chosen).tolist(),
            ),
            training=replace(
                start.training,
                recipe=replace(
                    start.training.recipe, max_steps=steps, hold_out=0.0, budget_seconds=left
                ),
                learning_rate=self.rate,
            ),
            began=None,
        )

    def checkpointed(self, run: Start) -> Start:
        """Return a run on all examples that resumes from its saved state, and saves new states."""
        return self.checkpoints.added_to(run) if self.checkpoints else run

    def last_beginning(self, form: ClosedForm) -> Start:
        """Begin on all examples: if most are known, with their adapter and fewer steps."""
        steps = self.steps if not self.below else max(1, int(self.steps * _KNOWN_STEPS))
        run = self.beginning(torch.arange(len(self.features)), form, steps)
        device = run.training.precision.device
        below = {name: tensor.to(device) for name, tensor in self.below.items()}
        trained = replace(run.trained, tensors={**run.trained.tensors, **below})
        return replace(run, trained=trained)

    def targets_of(self, rows: Sequence[Example]) -> Tensor:
        """Return examples' targets in the shape that the task's own loss takes."""
        return self.start.task.encode_targets([row.target for row in rows], self.start.data.labels)

    def outcome(self, tensors: Tensors | None, decision: HeadDecision, reason: str) -> AutoResult:
        """Return the result of taking no step on all examples."""
        recipe = self.start.training.recipe
        if reason == "budget_seconds":
            chosen = CLOSED if tensors else BASE
            decision = replace(decision, chosen=chosen, why=self._why_over)
        report = AdaptationReport(
            method="head" if tensors else BASE,
            trained_parameters=sum(tensor.numel() for tensor in (tensors or {}).values()),
            learning_rate=self.rate,
            seed=recipe.seed,
            precision=str(self.start.training.precision),
            examples=len(self.features),
            held_out_examples=0,
            steps=(),
            scores=(),
            best_step=0,
            stop_reason=reason,
            seconds=time.monotonic() - self.began,
            bit_for_bit=is_repeatable(self.start.training.precision.device),
            decision=decision,
        )
        return AutoResult(tensors, report)

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up, or was when these steps were first taken."""
        left = self.seconds_left
        is_used_up = self.is_cut_short or (left is not None and left <= _LEAST_SECONDS)
        return self.start.training.recipe.stop_after == 0 or is_used_up

    @property
    def is_cut_short(self) -> bool:
        """Whether the budget ended before all examples had features."""
        return len(self.features) < self.asked

    @property
    def _why_over(self) -> str:
        if not self.is_cut_short:
            return "the time was over before any step"
        seen = f"{len(self.features):,} of {self.asked:,} examples"
        return f"the time was over when {seen} were seen; an equal request continues from there"


def is_too_much(start: Start) -> bool:
    """Return whether fitting a head of these labels to these examples takes too long."""
    count, labels = len(start.data.examples), max(1, len(start.data.labels))
    return count > _MOST_EXAMPLES or count * labels > _MOST_OUTPUTS


def given_of(
    start: Start,
    phase: Phase,
    features: Tensor | None,
    began: float,
    asked: int | None = None,
) -> AutoStart | None:
    """Return the start of `auto`; None if a head cannot be fitted in closed form.

    Args:
        start: the start of the task's own method.
        phase: how inference runs.
        features: the features of the examples, (N, D); None if the task has no features.
        began: the time of the adaptation's start, by `time.monotonic`.
        asked: the number of examples in the request; None: the number in `start`.

    Raises:
        InputError: the recipe holds examples out.
    """
    names = None if features is None else HeadNames.of(_heads(start), features.shape[1])
    if features is None or names is None or min(features.shape) > _MOST_WIDTH:
        return None
    hold_out = start.training.recipe.hold_out
    if hold_out:
        raise InputError(
            f"hold_out is {hold_out}, and method 'auto' answers every example by a "
            "model that has not seen it. Leave hold_out out, or choose another method."
        )
    objective = _objective(start, names.read(start.trained.tensors))
    if objective is None:
        return None
    count = len(start.data.examples) if asked is None else asked
    return AutoStart(
        start=start,
        phase=phase,
        names=names,
        objective=objective,
        features=features,
        began=began,
        asked=count,
    )


def _objective(start: Start, prior: LinearHead) -> Objective | None:
    """Return the judge of a head's outputs; None if they are of another shape."""
    targets = start.task.encode_targets([e.target for e in start.data.examples], start.data.labels)
    if start.data.labels:
        labels = Labels(targets, prior)
        fits = len(prior.weight) == len(start.data.labels) and labels.knows_all
        return labels if fits else None
    numbers = targets.reshape(len(targets), -1).float()
    if len(targets) < 2 or numbers.shape[1] != len(prior.weight):
        return None
    return Numbers(numbers, prior)


def _heads(start: Start) -> dict[str, Tensor]:
    return {n: t for n, t in start.trained.tensors.items() if re.fullmatch(start.task.head, n)}
