"""`method=auto`: a head in closed form at once, then gradients where they pay. Model thread only.

A fold is trained on half of the examples and answers the other half, with half of the steps. What
answers best there is what is returned: the base, the closed form, what gradients gave, or the
middle between the closed form's start and that (Wortsman et al. 2022, arXiv 2109.01903). This
module knows no thread and no caller.
"""

import re
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from cog_adapt.runner.adaptation import adapt
from cog_adapt.runner.calibration import Calibration
from cog_adapt.runner.closed_form import ClosedForm
from cog_adapt.runner.decision import (
    BASE,
    CLOSED,
    GRADIENTS,
    MIDDLE,
    Candidate,
    Decision,
    decide,
    unknown,
)
from cog_adapt.runner.folds import folds
from cog_adapt.runner.head import HeadNames, outputs_of
from cog_adapt.runner.inference import Phase
from cog_adapt.runner.lora import LORA_A
from cog_adapt.runner.objective import Labels, Numbers, Objective
from cog_adapt.runner.replicas import Tensors, serving_replica
from cog_adapt.runner.report import AdaptationReport, Step
from cog_adapt.runner.start import Start

_RATE = 2.0  # times the usual one: the steps are few, and begin near their goal
_FEWEST_STEPS = 20
_EXAMPLES_A_STEP = 8
_FOLD_STEPS = 0.5  # of the steps on all examples
_LEAST_SECONDS = 0.001
_HELD_OUT, _FEWEST_TO_HOLD_OUT = 0.1, 20  # for early stopping, without features


@dataclass(frozen=True)
class Early:
    """A head in closed form, before any step.

    Attributes:
        tensors: the head's, on the CPU.
        labels: its label set.
        decision: between it and the base.
    """

    tensors: Tensors
    labels: tuple[str, ...]
    decision: Decision


@dataclass(frozen=True)
class Outcome:
    """What `auto` returns.

    Attributes:
        tensors: of the adapter; None: the base answers best.
        report: of the steps on all examples, and of the decision; its method is what won.
    """

    tensors: Tensors | None
    report: AdaptationReport


Automatic = Generator[Step | Early | None, None, Outcome]


@dataclass(frozen=True)
class Given:
    """What `auto` begins with.

    Attributes:
        start: of the task's own method, with all examples.
        names: the head's.
        objective: what its outputs are worth.
        features: of the examples, (N, D).
        began: when the adaptation began, by `time.monotonic`.
    """

    start: Start
    phase: Phase
    names: HeadNames
    objective: Objective
    features: Tensor
    began: float

    @cached_property
    def folds(self) -> list[tuple[Tensor, Tensor]]:
        """The positions to train on and to answer; none where there are too few."""
        return folds(self.objective.groups, self.start.recipe.seed)

    @property
    def steps(self) -> int:
        """Steps on all examples: some for each of them, and no more than were asked for."""
        wanted = max(_FEWEST_STEPS, len(self.features) // _EXAMPLES_A_STEP)
        return min(self.start.recipe.max_steps, wanted)

    @property
    def rate(self) -> float:
        """The learning rate: the caller's, or the usual one times `_RATE`."""
        own = self.start.recipe.learning_rate
        return own or self.start.learning_rate * _RATE

    @property
    def seconds_left(self) -> float | None:
        """What is left of the budget; None where there is none."""
        budget = self.start.recipe.budget_seconds
        if budget is None:
            return None
        return max(_LEAST_SECONDS, budget - (time.monotonic() - self.began))

    def outcome(self, tensors: Tensors | None, decision: Decision, reason: str) -> Outcome:
        """Make the outcome of no step on all examples."""
        recipe = self.start.recipe
        if reason == "budget_seconds":
            decision = replace(decision, chosen=CLOSED, why="the time was over before any step")
        report = AdaptationReport(
            method="head" if tensors else BASE,
            trained_parameters=sum(tensor.numel() for tensor in (tensors or {}).values()),
            learning_rate=self.rate,
            seed=recipe.seed,
            precision=str(self.start.precision),
            examples=len(self.features),
            held_out_examples=0,
            steps=(),
            scores=(),
            best_step=0,
            stop_reason=reason,
            seconds=time.monotonic() - self.began,
            decision=decision,
        )
        return Outcome(tensors, report)

    @property
    def is_over(self) -> bool:
        """Whether the budget is used up."""
        left = self.seconds_left
        return left is not None and left <= _LEAST_SECONDS


def adapt_automatically(given: Given) -> Automatic:
    """Adapt; yields the closed form, then each step on all examples (None for other ticks).

    Raises:
        AdaptationError: a loss or gradient was not finite, or memory ran out.
    """
    everything = torch.arange(len(given.features))
    form = given.objective.fit(given.features, everything)
    closed = given.names.write(form.head)
    first = _without_steps(given, form, everything)
    yield Early(closed, tuple(given.start.labels), first)
    if given.is_over:
        return given.outcome(closed, first, "budget_seconds")
    steps = given.steps
    answered = yield from _cross_answers(given, max(1, int(steps * _FOLD_STEPS)))
    decision = _decide(given, answered, first)
    if decision.chosen == BASE:
        return given.outcome(None, decision, "decided")
    if decision.chosen == CLOSED or given.is_over:
        reason = "budget_seconds" if given.is_over else "decided"
        return given.outcome(closed, decision, reason)
    run = _start(given, everything, form, steps)
    tensors, report = yield from adapt(run)
    if decision.chosen == MIDDLE:
        tensors = _middle(run.tensors, tensors)
    if answered is not None:
        calibration = answered.calibration(given, decision.chosen)
        head = given.names.read(tensors).calibrated(calibration)
        tensors = tensors | given.names.write(head)
    seconds = time.monotonic() - given.began
    return Outcome(tensors, replace(report, decision=decision, seconds=seconds))


def adapt_without_features(start: Start) -> Generator[Step | None, None, Outcome]:
    """Adapt by the task's own method, with early stopping where there are enough examples."""
    held_out = start.recipe.hold_out
    if not held_out and len(start.examples) >= _FEWEST_TO_HOLD_OUT:
        held_out = _HELD_OUT
    start = replace(start, recipe=replace(start.recipe, hold_out=held_out))
    tensors, report = yield from adapt(start)
    why = f"{type(start.task).__name__} has no features, so gradient steps are all there is"
    return Outcome(tensors, replace(report, decision=Decision(GRADIENTS, why, "score")))


def given_of(start: Start, phase: Phase, features: Tensor | None, began: float) -> Given | None:
    """Gather what `auto` begins with; None where a head cannot be fitted in closed form.

    Args:
        start: of the task's own method.
        phase: how inference runs.
        features: of the examples, (N, D); None where the task has none.
        began: when the adaptation began, by `time.monotonic`.
    """
    names = None if features is None else HeadNames.of(_heads(start), features.shape[1])
    if features is None or names is None:
        return None
    targets = start.task.encode_targets([e.target for e in start.examples], start.labels)
    prior = names.read(start.tensors)
    if start.labels:
        is_row_each = len(prior.weight) == len(start.labels)
        objective: Objective = Labels(targets, prior)
        return Given(start, phase, names, objective, features, began) if is_row_each else None
    numbers = targets.reshape(len(targets), -1).float()
    if len(targets) < 2 or numbers.shape[1] != len(prior.weight):
        return None
    return Given(start, phase, names, Numbers(numbers, prior), features, began)


def _heads(start: Start) -> dict[str, Tensor]:
    return {n: t for n, t in start.tensors.items() if re.fullmatch(start.task.head, n)}


@dataclass(frozen=True)
class _Answered:
    """Outputs for examples, by models that have not seen them.

    Attributes:
        chosen: positions of the examples, (M,).
        outputs: by candidate, (M, K) each.
    """

    chosen: Tensor
    outputs: Mapping[str, Tensor]

    def calibration(self, given: Given, name: str) -> Calibration:
        """Fit what calibrates a candidate."""
        return given.objective.calibration(self.outputs[name], self.chosen)

    def candidate(self, given: Given, name: str) -> Candidate:
        """Return what the calibrated answers are worth; the base answers as it is."""
        outputs = self.outputs[name]
        if name != BASE:
            outputs = self.calibration(given, name)(outputs)
        return _candidate(given, outputs, self.chosen)


def _candidate(given: Given, outputs: Tensor, chosen: Tensor) -> Candidate:
    objective = given.objective
    losses, scores = objective.losses(outputs, chosen), objective.right(outputs, chosen)
    return Candidate.of(losses, scores, objective.importance(chosen))


def _without_steps(given: Given, form: ClosedForm, everything: Tensor) -> Decision:
    """Compare the base with the closed form's leave-one-out answers."""
    objective = given.objective
    if not given.folds:
        return unknown(objective.name)
    base = _candidate(given, objective.prior(given.features), everything)
    closed = _candidate(given, form.left_out, everything)
    return decide({BASE: base, CLOSED: closed}, objective.name)


def _decide(given: Given, answered: _Answered | None, first: Decision) -> Decision:
    """Choose among all; leave-one-out answers estimate the closed form best."""
    if answered is None:
        return first
    found = {name: answered.candidate(given, name) for name in answered.outputs}
    decision = decide(found, given.objective.name)
    after = first.candidates[CLOSED] if decision.chosen == CLOSED else decision.after
    return replace(decision, before=first.candidates[BASE], after=after)


def _cross_answers(given: Given, steps: int) -> Generator[None, None, _Answered | None]:
    """Train on each fold, and answer the other; None where there are no folds."""
    parts: list[tuple[Tensor, dict[str, Tensor]]] = []
    for train, others in given.folds:
        form = given.objective.fit(given.features, train)
        run = _start(given, train, form, steps)
        trained = yield from _trained(run)
        features = given.features[others]
        outputs = {BASE: given.objective.prior(features), CLOSED: form.head(features)}
        for name, tensors in ((GRADIENTS, trained), (MIDDLE, _middle(run.tensors, trained))):
            outputs[name] = yield from _outputs(given, tensors, others)
        parts.append((others, outputs))
    if not parts:
        return None
    names = parts[0][1]
    joined = {name: torch.cat([outputs[name] for _, outputs in parts]) for name in names}
    return _Answered(torch.cat([others for others, _ in parts]), joined)


def _trained(run: Start) -> Generator[None, None, Tensors]:
    """Adapt to a fold; its steps are nobody's progress."""
    work = adapt(run)
    while True:
        try:
            next(work)
        except StopIteration as stop:
            tensors: Tensors = stop.value[0]
            return tensors
        yield None


def _outputs(given: Given, tensors: Tensors, others: Tensor) -> Generator[None, None, Tensor]:
    start = given.start
    moved = {name: tensor.to(start.precision.device) for name, tensor in tensors.items()}
    replica = serving_replica(start.template, moved, start.scales)
    rows = [start.examples[i] for i in others.tolist()]
    targets = given.objective.targets[others]
    size = start.recipe.batch_size
    return (yield from outputs_of(given.phase, replica, given.names.layer, rows, targets, size))


def _start(given: Given, chosen: Tensor, form: ClosedForm, steps: int) -> Start:
    """Begin with a head in closed form, on some examples."""
    start, objective = given.start, given.objective
    head = given.names.write(objective.begin(given.features, chosen, form))
    device = start.precision.device
    return replace(
        start,
        tensors=dict(start.tensors) | {name: tensor.to(device) for name, tensor in head.items()},
        examples=[start.examples[i] for i in chosen.tolist()],
        weights=objective.weights(form, chosen).tolist(),
        recipe=replace(
            start.recipe, max_steps=steps, hold_out=0.0, budget_seconds=given.seconds_left
        ),
        learning_rate=given.rate,
    )


def _middle(begin: Mapping[str, Tensor], end: Mapping[str, Tensor]) -> Tensors:
    """Return the tensors half-way; LoRA's A stays, since B alone makes its change half as large."""
    return {
        name: tensor if name.rpartition(".")[2] == LORA_A else (begin[name].to(tensor) + tensor) / 2
        for name, tensor in end.items()
    }
