"""Measures the rounding of a loss, which the loss's value hides if its terms cancel.

Two means around 100 with a difference of 0.001 give that difference to 1e-5 at best. Along steps
too short to bend it, a loss without rounding lies on a line of any slope.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

from torch import Tensor

from gradient_check.diagnosis.stand_ins import StandIns
from gradient_check.findings.examination import attempted
from gradient_check.instruments.differences import OF_CANCELLED, Limits, Verdict
from gradient_check.instruments.directions import Direction, move, norm
from gradient_check.instruments.noise import real
from gradient_check.instruments.subject import Subject

_STEPS = 6
_LONGER = (1, 10, 100)
CANCELLED = 30  # times the loss: smaller terms are as exact as the loss
SHORT = 1e-5
"""The first step's length, relative to the tensors' norm: too short to bend a loss."""


class LossRounding:
    """The rounding of a subject's loss, measured if a check would fail without it.

    The state is the last measurement, since several checks need the same one.

    Args:
        subject: the subject, whose parameters have their gradients.
        limits: of the precision.
    """

    def __init__(self, subject: Subject, limits: Limits) -> None:
        self.subject = subject
        self.limits = limits
        self._known: tuple[StandIns, float] | None = None

    def while_held(self, stops: StandIns) -> float:
        """Return the loss's rounding while stops are held; 0 without a gradient.

        It is measured once for the same stops.
        """
        if self._known is None or self._known[0] is not stops:
            self._known = stops, attempted(lambda: self._measured(stops), 0.0)
        return self._known[1]

    def judged(
        self,
        compare: Callable[[Limits, float], Verdict],
        limits: Limits,
        loss: float,
        stops: StandIns,
    ) -> Verdict:
        """Return a comparison's verdict; repeat a failed comparison with the measured rounding.

        If terms of the loss cancel, the size of the terms determines the loss's rounding and the
        length of steps.

        Args:
            compare: a function that compares within limits, for a loss of the given size.
            limits: the limits, and the known noise.
            loss: the loss.
            stops: the stops that are held.
        """
        verdict = compare(limits, loss)
        if not (verdict.wrong or verdict.rough):
            return verdict
        terms = self.while_held(stops) / self.limits.noise
        if terms <= CANCELLED * abs(loss):
            return verdict
        return compare(replace(self.limits, changes=OF_CANCELLED), terms)

    def _measured(self, stops: StandIns) -> float:
        grads = {n: p.grad for n, p in self.subject.parameters.items()}
        own = {n: g for n, g in grads.items() if g is not None and not g.is_sparse}
        tensors = [real(self.subject.parameters[name].detach()) for name in own]
        directions = [Direction(real(gradient)) for gradient in own.values()]
        length = norm([d.tensor for d in directions]) if directions else 0.0
        if not 0 < length < math.inf:
            return 0.0
        exactly = self.subject.moved(own, 0.0)  # puts back each bit at its end
        with nullcontext() if self.subject.is_large else exactly, stops.held():
            size = SHORT * norm(tensors) / length
            return rounding_of(self.subject.forward, tensors, directions, size)


def rounding_of(
    forward: Callable[[], float],
    tensors: Sequence[Tensor],
    directions: Sequence[Direction],
    size: float,
) -> float:
    """Return a loss's rounding, measured as its distance from a line.

    If a loss is constant along such steps, they are too short to cross its rounding, and longer
    steps are taken.

    Args:
        forward: computes the loss at the tensors' present values.
        tensors: float tensors without a graph; restored except for rounding.
        directions: along which they are moved.
        size: of the first step, in directions.
    """
    for times in _LONGER:
        changes = _changes(forward, tensors, directions, times * size)
        if any(changes):
            return max(abs(after - before) for before, after in pairwise(changes))
    return 0.0


def _changes(
    forward: Callable[[], float],
    tensors: Sequence[Tensor],
    directions: Sequence[Direction],
    size: float,
) -> list[float]:
    losses = [forward()]
    for _ in range(_STEPS):
        move(tensors, directions, size)
        losses.append(forward())
    move(tensors, directions, -_STEPS * size)
    return [after - before for before, after in pairwise(losses)]
