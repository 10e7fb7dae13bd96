"""`method=auto`: a head in closed form at once, then gradients where they pay. Model thread only.

A fold is trained on half of the examples with half of the steps, and answers the other half. The
candidate with the best answers there is returned: the base, the closed form, the trained adapter,
or the middle between the start of training and its end (Wortsman et al. 2022, arXiv 2109.01903).
Fewer than 30 examples do not show which is best: gradients and the closed form are then averaged,
and the folds' answers calibrate the average. This module knows no thread and no caller.
"""

import time
from collections.abc import Generator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from cog_adapt.runner.adaptation.bounded_rate import adapt_within_bounds
from cog_adapt.runner.adaptation.report import Snapshot, Step
from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.auto.cross_answers import (
    CrossAnswers,
    averaged,
    candidate_of,
    cross_answers,
    middle,
)
from cog_adapt.runner.auto.head import outputs_of
from cog_adapt.runner.auto.start import AutoResult, AutoStart
from cog_adapt.runner.config import HEAD
from cog_adapt.runner.devices.algebra_thread import beside
from cog_adapt.runner.heads.calibration import effective_count
from cog_adapt.runner.heads.closed_form import ClosedForm
from cog_adapt.runner.heads.decision import (
    AVERAGE,
    BASE,
    CLOSED,
    GRADIENTS,
    MIDDLE,
    HeadDecision,
    asked_for,
    decide,
    of_few,
    of_head_alone,
    unknown,
)
from gradient_check.phases.replicas import Tensors, serving_replica

_FEW, _NEAR = 8, 0.05  # examples on which a head is checked, and the relative error of 16 bits
_HELD_OUT, _FEWEST_TO_HOLD_OUT = 0.1, 20  # for early stopping of a task without features


Automatic = Generator[Step | Snapshot | None, None, AutoResult | None]


def adapt_automatically(given: AutoStart) -> Automatic:
    """Adapt; yield the closed form, then each step on all examples (None for other ticks).

    Returns None if the task's head does not fit its features. If the task's method trains the head
    alone, the closed form already is the result of its steps.

    Raises:
        AdaptationError: a loss or gradient was not finite, or memory ran out.
    """
    if not (yield from _is_linear(given)):
        return None
    yield None
    form, first = yield from beside(partial(_fitted, given), entries=given.entries)
    closed = given.names.write(form.head)
    yield snapshot_of(first, closed, given.start)
    if given.is_over:
        return _without_gradients(given, closed=closed, decision=first, reason="budget_seconds")
    if given.trains_head_alone:
        return _without_gradients(
            given, closed=closed, decision=of_head_alone(first), reason="fitted"
        )
    if not given.folds:
        return (yield from _unestimated(given, first))
    find_share = partial(given.objective.wrong_share, form)
    wrong_share = yield from beside(find_share, entries=given.entries)
    answered = yield from _in_time(given, cross_answers(given, wrong_share))
    if answered is None:
        return _without_gradients(given, closed=closed, decision=first, reason="budget_seconds")
    decide_now = partial(_decide, given, answered, first)
    decision = yield from beside(decide_now, entries=given.entries)
    # time may have cut the folds short, so their decision is not stored for later
    if given.is_over:
        return _without_gradients(given, closed=closed, decision=first, reason="budget_seconds")
    if decision.chosen in (BASE, CLOSED):
        return _without_gradients(given, closed=closed, decision=decision, reason="decided")
    return (yield from _with_gradients(given, form=form, answered=answered, decision=decision))


def snapshot_of(decision: HeadDecision, tensors: Tensors, start: Start) -> Snapshot:
    """Return the model with a head before any step, and the decision between it and the base."""
    return Snapshot(
        tensors=tensors, labels=tuple(start.data.labels), method=HEAD, decision=decision
    )


def fit_head(given: AutoStart) -> Generator[None, None, AutoResult | None]:
    """Fit only a head in closed form; return None if the task's head is not linear."""
    if not (yield from _is_linear(given)):
        return None
    yield None
    form, first = yield from beside(partial(_fitted, given), entries=given.entries)
    reason = "budget_seconds" if given.is_cut_short else "fitted"
    return given.outcome(given.names.write(form.head), asked_for(first), reason)


def _in_time(
    given: AutoStart, work: Generator[None, None, CrossAnswers]
) -> Generator[None, None, CrossAnswers | None]:
    """Continue work until the budget is over; None if it was not finished by then."""
    done: list[CrossAnswers] = []

    def ticks() -> Generator[None, None, None]:
        done.append((yield from work))

    for tick in ticks():
        if given.is_over:
            return None
        yield tick
    return done[0]


def _is_linear(given: AutoStart) -> Generator[None, None, bool]:
    """Return whether the head is as the task says: linear in the features, with the usual loss."""
    start, few = given.start, torch.arange(min(_FEW, len(given.features)))
    replica = serving_replica(start.trained.template, start.trained.tensors, start.trained.scales)
    rows = start.data.examples[: len(few)]
    targets = given.targets_of(rows)
    looked = outputs_of(
        given.phase,
        module=replica,
        layer=given.names.layer,
        rows=rows,
        targets=targets,
        size=len(rows),
    )
    outputs, losses = yield from looked
    expected = given.objective.prior(given.features[few])
    if outputs.shape != expected.shape:
        return False
    near = _NEAR * float(expected.abs().max())
    is_head = torch.allclose(outputs, expected, rtol=0.0, atol=max(near, _NEAR))
    return is_head and given.objective.explains(losses, outputs, few)


def adapt_without_features(start: Start) -> Generator[Step | Snapshot | None, None, AutoResult]:
    """Adapt by the task's own method, with early stopping if there are enough examples."""
    held_out = start.training.recipe.hold_out
    if not held_out and len(start.data.examples) >= _FEWEST_TO_HOLD_OUT:
        held_out = _HELD_OUT
    start = start.with_recipe(replace(start.training.recipe, hold_out=held_out))
    tensors, report = yield from adapt_within_bounds(start)
    kind = type(start.task).__name__
    why = f"{kind} has no head that can be fitted in closed form: only steps are left"
    lacking = f"only a head over `features`, which {kind} lacks, answers examples left out"
    decision = HeadDecision(GRADIENTS, why, "score", no_estimate=lacking)
    return AutoResult(tensors, replace(report, decision=decision))


def _without_gradients(
    given: AutoStart, closed: Tensors, decision: HeadDecision, reason: str
) -> AutoResult:
    """Return the result of a decision between the base and the closed form, without a step."""
    return given.outcome(None if decision.chosen == BASE else closed, decision, reason)


def _with_gradients(
    given: AutoStart, form: ClosedForm, answered: CrossAnswers, decision: HeadDecision
) -> Generator[Step | Snapshot | None, None, AutoResult]:
    """Take steps on all examples, and return the decided candidate."""
    run = given.checkpointed(given.last_beginning(form))
    tensors, report = yield from adapt_within_bounds(run)
    if decision.chosen == AVERAGE:
        tensors = averaged(given, form.head, tensors)
    if decision.chosen == MIDDLE:
        tensors = middle(run.trained.tensors, tensors)
    calibrate = partial(answered.calibration_of_all, given, decision.chosen)
    calibration = yield from beside(calibrate, entries=given.entries)
    head = given.names.read(tensors).calibrated(calibration)
    seconds = time.monotonic() - given.began
    report = replace(report, decision=decision, seconds=seconds)
    return AutoResult(tensors | given.names.write(head), report, bool(given.below))


def _unestimated(
    given: AutoStart, first: HeadDecision
) -> Generator[Step | Snapshot | None, None, AutoResult]:
    """Adapt by the task's own method to examples that are too few for folds.

    From the labels' names gradients gain more than from centroids of one example each.
    """
    recipe = replace(given.start.training.recipe, budget_seconds=given.seconds_left)
    start = given.start.with_recipe(recipe)
    if not bool(given.objective.prior.weight.any()):
        everything = torch.arange(len(given.features))
        form = given.objective.fit(given.features, everything)
        start = given.beginning(everything, form, recipe.max_steps)
    tensors, report = yield from adapt_within_bounds(given.checkpointed(start))
    head = given.names.read(tensors).calibrated(given.objective.usual_calibration())
    seconds = time.monotonic() - given.began
    report = replace(report, decision=first, seconds=seconds)
    return AutoResult(tensors | given.names.write(head), report)


def _fitted(given: AutoStart) -> tuple[ClosedForm, HeadDecision]:
    """Fit a head to all examples, and compare it with the base."""
    everything = torch.arange(len(given.features))
    form = given.objective.fit(given.features, everything)
    return form, _without_steps(given, form, everything)


def _without_steps(given: AutoStart, form: ClosedForm, everything: Tensor) -> HeadDecision:
    """Compare the base with the closed form's leave-one-out answers."""
    objective = given.objective
    if not given.folds:
        return unknown(objective.name)
    wrong_share = objective.wrong_share(form)
    base = candidate_of(
        given, outputs=objective.prior(given.features), chosen=everything, wrong_share=wrong_share
    )
    closed = candidate_of(given, outputs=form.left_out, chosen=everything, wrong_share=wrong_share)
    first = decide({BASE: base, CLOSED: closed}, objective.name)
    suspects = objective.suspects(form, [*map(str, given.start.data.labels)], wrong_share)
    return replace(of_few(first) if objective.averages else first, suspects=suspects)


def _decide(given: AutoStart, answered: CrossAnswers, first: HeadDecision) -> HeadDecision:
    """Choose among all candidates; leave-one-out answers estimate the closed form best."""
    found = answered.candidates(given)
    count = effective_count(given.objective.importance(answered.chosen))
    decision = decide(found, given.objective.name, count)
    decision = replace(decision, suspects=first.suspects)
    if decision.chosen != CLOSED:
        return decision
    return replace(decision, before=first.candidates[BASE], after=first.candidates[CLOSED])
