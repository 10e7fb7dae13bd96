"""Tells that the loss of an adaptation has grown instead of fallen."""

import math
from collections.abc import Sequence

_TIMES = 5.0  # a batch of other examples has less than so many times the first loss
_LEAST_RISE = 1.0


def divergence(losses: Sequence[float], learning_rate: float) -> str:
    """Return a sentence on losses that grew far above the first one; empty if they did not.

    Args:
        losses: the loss of each step, in order.
        learning_rate: the rate of these steps; the sentence suggests a tenth of it.
    """
    if len(losses) < 2:
        return ""
    known = [math.inf if math.isnan(loss) else loss for loss in losses]
    first, (worst, step) = known[0], max((loss, n) for n, loss in enumerate(known, 1))
    if worst <= max(_TIMES * abs(first), first + _LEAST_RISE):
        return ""
    return (
        f"the loss rose from {first:.3g} to {worst:.3g} in step {step}: steps of a learning rate "
        f"of {learning_rate:.2g} are too long for this model. Send a lower `learning_rate`, "
        f"{learning_rate / 10:.1g} say"
    )
