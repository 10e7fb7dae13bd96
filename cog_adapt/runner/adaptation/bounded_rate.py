"""Adapts at an automatic rate that never multiplies the loss: such steps are taken again, lower.

A step that multiplies the loss shows in the next step's loss, so this costs nothing while all is
well. All steps so far are then taken back, and the run begins again at a quarter of the rate. The
losses decide, never a clock, so equal requests give equal bits. A rate of the caller's own stays.
The loss after the last step is not computed.
"""

import math
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace

from cog_adapt.runner.adaptation.report import AdaptationReport, Snapshot, Step, TakenBack
from cog_adapt.runner.adaptation.run import Adapting, adapt
from cog_adapt.runner.adaptation.start import Start
from cog_adapt.runner.errors import NotFiniteError
from gradient_check.phases.loss_growth import is_multiplied
from gradient_check.phases.replicas import Tensors

_CUT = 0.25
_MOST_CUTS = 4  # a run at the lowest rate goes on whatever its losses are: the report warns
_WATCHED = 10  # steps: the rate only falls, and a rate that is too high shows in the second loss


class _TooLong(Exception):
    """The steps so far have multiplied the loss."""

    def __init__(self, found: TakenBack) -> None:
        super().__init__()
        self.found = found


def adapt_within_bounds(start: Start) -> Adapting:
    """Train as `adapt` does; where the recipe names no rate, at one that suits the model.

    Raises:
        AdaptationError: a loss or gradient was not finite, or memory ran out.
    """
    if start.training.recipe.learning_rate:
        return (yield from adapt(start))
    limit = start.training.limit
    earlier, began = limit.steps, start.began or time.monotonic()
    usual = start.training.learning_rate
    run = replace(_resumed(start), began=began)
    taken_back: list[TakenBack] = []
    while True:
        is_last = run.training.learning_rate <= usual * _CUT**_MOST_CUTS
        try:
            tensors, report = yield from (adapt(run) if is_last else _watched(run))
        except _TooLong as stop:
            taken_back.append(stop.found)
        else:
            return tensors, replace(report, taken_back=tuple(taken_back))
        limit.go_back(earlier)
        run = replace(
            run,
            training=replace(run.training, learning_rate=run.training.learning_rate * _CUT),
            resumption=replace(run.resumption, state=None),
        )


def _resumed(start: Start) -> Start:
    """Let a run that was killed go on at the rate of its steps."""
    state = start.resumption.state
    if state is None or not state.steps:
        return start
    rate = state.steps[0].learning_rate  # the first step's is the peak
    return replace(start, training=replace(start.training, learning_rate=rate))


def _watched(start: Start) -> Adapting:
    """Train; raise `_TooLong` if one of the first losses is multiplied."""
    state = start.resumption.state
    losses = [step.loss for step in state.steps] if state else []
    try:
        return (yield from _checked(start, losses))
    except NotFiniteError as error:
        if not losses or len(losses) >= _WATCHED:  # the model's or the examples' own
            raise
        raise _TooLong(_found(start, losses, math.nan)) from error


def _checked(start: Start, losses: list[float]) -> Adapting:
    done: list[tuple[Tensors, AdaptationReport]] = []

    def ticks() -> Generator[Step | Snapshot | None, None, None]:
        done.append((yield from adapt(start)))

    with closing(ticks()) as work:
        for tick in work:
            _check(start, tick, losses)
            yield tick
    return done[0]


def _check(start: Start, tick: Step | Snapshot | None, losses: list[float]) -> None:
    """Add one of the first losses; raise `_TooLong` if it is multiplied."""
    if not isinstance(tick, Step) or len(losses) >= _WATCHED:
        return
    losses.append(tick.loss)
    if is_multiplied(losses[0], tick.loss):
        raise _TooLong(_found(start, losses[:-1], tick.loss))


def _found(start: Start, losses: list[float], loss: float) -> TakenBack:
    return TakenBack(
        learning_rate=start.training.learning_rate,
        step=len(losses) + 1,
        first_loss=losses[0],
        loss=loss if math.isfinite(loss) else None,
    )
