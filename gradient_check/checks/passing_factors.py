"""Measures the gradient that passes into a block, as a factor of the slope there."""

import math
from dataclasses import replace

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.stand_ins import StandIns, find_stand_ins
from gradient_check.instruments import differences
from gradient_check.instruments.declared_slopes import DeclaredSlopes
from gradient_check.instruments.differences import Limits, Verdict
from gradient_check.instruments.directions import DirectionKind

_COARSE = 0.05  # a larger limit is the one of 16 bits, in which a factor has fewer digits


def measured_factor(
    flow: GradientFlow, slopes: DeclaredSlopes, pattern: str, expected: float = 1.0
) -> float | None:
    """Return the gradient at a pattern's blocks, divided by the slope there.

    The result is None if a single factor does not explain the gradient.

    Args:
        flow: the gradients.
        slopes: the declarations, including the pattern.
        pattern: the pattern of the blocks.
        expected: the factor, unless differences say otherwise.
    """
    first = compare_passed(flow, slopes, pattern, factor=expected, ways=(DirectionKind.GRADIENT,))
    if not first.wrong:
        return None if first.rough else expected
    factor = expected / first.ratio if first.ratio else math.inf
    if not math.isfinite(factor):
        return None
    digits = 1 if flow.limits.block > _COARSE else 3
    near = round(factor, digits)
    factor = near if abs(near - factor) < flow.limits.block * abs(factor) else factor
    ways = (DirectionKind.GRADIENT, DirectionKind.BENT)
    again = compare_passed(flow, slopes, pattern, factor=factor, ways=ways)
    return None if again.wrong or again.rough else factor


def compare_passed(  # noqa: PLR0913 - the gradients, their declarations, and the place to compare
    flow: GradientFlow,
    slopes: DeclaredSlopes,
    pattern: str,
    *,
    factor: float,
    ways: tuple[DirectionKind, ...],
    loss: float | None = None,
) -> Verdict:
    """Compare the gradient into the blocks with the loss's change when the values there move.

    All blocks are held, so that a path from one to another counts as each block passes it.
    """

    def compare(limits: Limits, loss: float) -> Verdict:
        with replace(_stops_of(flow), sites=slopes.sites).held() as crossings:
            numbers = crossings.of(pattern)
            tensors = [crossings.moved[n] for n in numbers]
            given = [crossings.gradients[n] for n in numbers]
            gradients = [
                (g / factor).to(t) for g, t in zip(given, tensors, strict=True) if g is not None
            ]
            forward, limit = flow.subject.forward, limits.block
            return differences.compare(
                forward, tensors, gradients, limit, limits, loss=loss, ways=ways
            )

    loss = flow.loss if loss is None else loss
    return flow.loss_rounding.judged(compare, flow.limits, loss, flow.stand_ins)


def _stops_of(flow: GradientFlow) -> StandIns:
    """Return the intended stops, which are held too; else a loss may be constant (GRPO's)."""
    return find_stand_ins(flow.subject, flow.diagnosis.names, flow.declared, flow.slopes.sites)


def in_words(factor: float | None) -> str:
    """Return the passed gradient as a phrase."""
    return "no multiple of the slope" if factor is None else f"the slope times {factor:.3g}"
