"""Tells whether steps have multiplied a loss: their learning rate is then too high."""

import math
from collections.abc import Sequence

_TIMES = 5.0  # a batch of other examples has less than so many times the first loss
_LEAST_RISE = 1.0


def is_multiplied(first: float, later: float) -> bool:
    """Return whether a later loss is far above the first one, or is no number."""
    return not later <= max(_TIMES * abs(first), first + _LEAST_RISE)


def worst_rise(losses: Sequence[float]) -> tuple[int, float] | None:
    """Return the step, from 1, and the loss of the worst rise; None if no loss is multiplied.

    Args:
        losses: the loss of each step before its update, in order.
    """
    if len(losses) < 2:
        return None
    known = [math.inf if math.isnan(loss) else loss for loss in losses]
    worst, step = max((loss, number) for number, loss in enumerate(known, 1))
    return (step, worst) if is_multiplied(known[0], worst) else None
