"""Judges the declared factors of gradients that are intentionally a multiple of the slope."""

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.passing_factors import compare_passed, in_words, measured_factor
from gradient_check.instruments.directions import DirectionKind


def judge_reversed_gradients(flow: GradientFlow) -> None:
    """Fail each declared factor that is not the one by which the gradient passes."""
    for pattern, factor in flow.slopes.factors.items():
        if not _is_wrong_everywhere(flow, pattern, factor):
            continue
        place = flow.slopes.sites.places[pattern]
        found = measured_factor(flow, flow.slopes, pattern, expected=factor)
        flow.exam.add(
            "FAIL",
            "gradient-wrong",
            f"`reversed_gradients` declares {pattern!r} with the factor {factor:g}, but the "
            f"backward there passes {in_words(found)}. Correct the factor, or the backward.",
            module=place.module,
            line=place.line,
        )


def _is_wrong_everywhere(flow: GradientFlow, pattern: str, factor: float) -> bool:
    """Return whether a declared factor is wrong here and nearby: next to a kink both may be."""
    if not flow.slopes.sites or pattern not in flow.slopes.sites.places:
        return False
    ways = (DirectionKind.GRADIENT, DirectionKind.BENT)
    if not compare_passed(flow, flow.slopes, pattern, factor=factor, ways=ways).wrong:
        return False
    with flow.subject.elsewhere(1) as loss:
        again = compare_passed(flow, flow.slopes, pattern, factor=factor, ways=ways, loss=loss)
    return again.wrong
