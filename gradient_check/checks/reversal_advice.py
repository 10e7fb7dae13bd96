"""Says how to declare that the gradient is intentionally the slope times a factor."""

import math
from collections.abc import Mapping

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.passing_factors import in_words, measured_factor
from gradient_check.findings.report import Place
from gradient_check.instruments.declared_slopes import DeclaredSlopes

_FEW = 1e-3  # relative difference allowed between the factors of several parameters


def advice_for(flow: GradientFlow, place: Place, ratios: Mapping[str, float]) -> str:
    """Say how to declare a place that multiplies the slope; return '' if it does not.

    Args:
        flow: the gradients.
        place: the place of the fault.
        ratios: the measured change over the predicted change, for each wrong parameter.
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
        f"The backward there passes {in_words(factor)}. Correct the backward, or, if the factor is "
        f"intended, declare `reversed_gradients={declaration}`."
    )
