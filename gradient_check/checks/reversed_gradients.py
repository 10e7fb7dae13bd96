"""Measures what passes backward into a block, as a factor of the slope there.

A declared factor must be that; where a reversal is not declared, the measured one is the advice.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.stand_ins import StandIns, find_stand_ins
from gradient_check.findings.report import Place
from gradient_check.instruments import differences
from gradient_check.instruments.declared_slopes import DeclaredSlopes
from gradient_check.instruments.differences import Limits, Verdict
from gradient_check.instruments.directions import DirectionKind

_FEW = 1e-3  # how far the factors of several parameters may be apart
_COARSE = 0.05  # a limit above it is that of 16 bits, where a factor has fewer digits


def judge_factors(flow: GradientFlow) -> None:
    """Fail each declared factor that is not the one by which the gradient passes."""
    for pattern, factor in flow.slopes.factors.items():
        if not _is_wrong_everywhere(flow, pattern, factor):
            continue
        place = flow.slopes.sites.places[pattern]
        found = measured_factor(flow, flow.slopes, pattern, factor)
        flow.exam.add(
            "FAIL",
            "gradient-wrong",
            f"`reversed_gradients` declares {pattern!r} with the factor {factor:g}, but what "
            f"passes backward there is {_times(found)}. Correct the factor, or the backward.",
            module=place.module,
            line=place.line,
        )


def advice_for(flow: GradientFlow, place: Place, ratios: Mapping[str, float]) -> str:
    """Say how to declare what happens at a place if it multiplies the slope; '' if it does not.

    Args:
        flow: the gradients.
        place: of the fault.
        ratios: of wrong parameters, measured change over the gradient's.
    """
    for pattern in filter(None, (place.line, (place.module or "").split(" (")[0])):
        tried = DeclaredSlopes({pattern: 1.0})
        tried.find(flow.subject, flow.diagnosis.names, flow.kinds)
        if not tried.sites:
            continue
        found = measured_factor(flow, tried, pattern)
        if found is not None and abs(found - 1) > 2 * flow.limits.block:
            shown = _shown(flow, tried.sites.places[pattern])
            return _sentence(found, f"{{{shown!r}: {found:.3g}}}")
    factors = {1 / ratio for ratio in ratios.values() if ratio and math.isfinite(ratio)}
    is_hook = any(flow.subject.parameters[name]._backward_hooks for name in ratios)
    if is_hook and len(ratios) == len(factors) > 0 and max(factors) - min(factors) < _FEW:
        return _sentence(max(factors), f"{{{'|'.join(ratios)!r}: {max(factors):.3g}}}")
    return ""


def measured_factor(
    flow: GradientFlow, slopes: DeclaredSlopes, pattern: str, expected: float = 1.0
) -> float | None:
    """Return what passes backward at a pattern's blocks over the slope there; None: no one factor.

    Args:
        flow: the gradients.
        slopes: what is declared of them, the pattern among it.
        pattern: of the blocks.
        expected: the factor, unless differences say otherwise.
    """
    first = _compared(flow, slopes, pattern, expected, (DirectionKind.GRADIENT,))
    if not first.wrong:
        return None if first.rough else expected
    factor = expected / first.ratio if first.ratio else math.inf
    if not math.isfinite(factor):
        return None
    digits = 1 if flow.limits.block > _COARSE else 3
    near = round(factor, digits)
    factor = near if abs(near - factor) < flow.limits.block * abs(factor) else factor
    again = _compared(flow, slopes, pattern, factor, (DirectionKind.GRADIENT, DirectionKind.BENT))
    return None if again.wrong or again.rough else factor


def _is_wrong_everywhere(flow: GradientFlow, pattern: str, factor: float) -> bool:
    """Return whether a declared factor is wrong here and near by: next to a kink both may be."""
    if not flow.slopes.sites or pattern not in flow.slopes.sites.places:
        return False
    ways = (DirectionKind.GRADIENT, DirectionKind.BENT)
    if not _compared(flow, flow.slopes, pattern, factor, ways).wrong:
        return False
    with flow.subject.elsewhere(1) as loss:
        return _compared(flow, flow.slopes, pattern, factor, ways, loss).wrong


def _compared(  # noqa: PLR0913 - the gradients, what is declared of them, and where to compare
    flow: GradientFlow,
    slopes: DeclaredSlopes,
    pattern: str,
    factor: float,
    ways: tuple[DirectionKind, ...],
    loss: float | None = None,
) -> Verdict:
    """Compare what passes backward into the blocks with the loss's change when values move there.

    All blocks are held, so that what leads from one to another counts as each passes it.
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
    """Return the stops that are meant, which are held too: a loss may not move without (GRPO's)."""
    return find_stand_ins(flow.subject, flow.diagnosis.names, flow.declared, flow.slopes.sites)


def _shown(flow: GradientFlow, place: Place) -> str:
    """Return a pattern for a place: a module that is nothing else, or the code of its line."""
    path = (place.module or "").split(" (")[0]
    parts = dict(flow.subject.replica.named_modules())
    is_apart = path in parts and not any(True for _ in parts[path].parameters())
    if is_apart or not place.line:
        return path.replace(".", r"\.") if path else path
    return place.line.split(": ", 1)[-1]


def _sentence(factor: float, declaration: str) -> str:
    return (
        f"What passes backward there is {_times(factor)}. Correct that, or, if it is meant, "
        f"declare `reversed_gradients={declaration}`."
    )


def _times(factor: float | None) -> str:
    return "no multiple of the slope" if factor is None else f"the slope times {factor:.3g}"
