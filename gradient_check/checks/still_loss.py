"""Step 11 for a loss that a step leaves unchanged: it is stale, flat, or the step was too small."""

import math

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.loss_dependence import LossDependence
from gradient_check.instruments.differences import SIXTEEN_BIT


def judge_still_loss(flow: GradientFlow, loss: float, descent: float) -> None:
    """Report an unchanged loss as a stale forward or a flat loss; accept it after a tiny step.

    Weights of 16 bits round many steps away, however much the loss should have moved.

    Args:
        flow: the gradients of the step.
        loss: the loss before the step, and after it.
        descent: the change of the loss that the gradient predicts for the step.
    """
    limits, spread = flow.limits, flow.spread
    size = max(abs(loss), flow.scale)
    is_large = abs(descent) > 4 * limits.noise * size + spread
    if is_large and limits is not SIXTEEN_BIT:
        rounding = flow.loss_rounding.while_held(flow.stand_ins)
        is_large = abs(descent) > 4 * rounding
    if not is_large or limits is SIXTEEN_BIT:
        dependence = LossDependence(flow.subject, loss, limits, spread)
        if dependence.depends(flow.subject.names):
            return
    if is_large and _is_stopped(flow):
        return
    if is_large:
        flow.exam.add(
            "FAIL",
            "stale-forward",
            f"the loss is {loss:.6g} before and after a step that changed the weights and should "
            f"have moved it by {descent:.2g}: the forward computes with copies of them. Store no "
            "value that was computed from weights.",
        )
    else:
        flow.exam.add(
            "FAIL",
            "flat",
            f"the loss is {loss:.6g} for all values of the trained parameters, and the gradient is "
            "rounding noise: this loss cannot train them on this probe (the mean square of a "
            "normalised output is constant, for one). Test with the loss you train with.",
        )


def _is_stopped(flow: GradientFlow) -> bool:
    """Return whether a known stop keeps the loss as it is: that of `exp(p - p.detach())`."""
    stops = flow.stand_ins
    if any(f.code == "gradient-wrong" and f.line for f in flow.exam.findings):
        return True  # the line that stops the loss is reported
    if not stops.has_stops and not flow.slopes.surrogates:
        return False
    with stops.held():
        dependence = LossDependence(flow.subject, math.nan, flow.limits, flow.spread)
        return dependence.depends(flow.subject.names)
