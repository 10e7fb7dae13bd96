"""Step 9 for gradients that are exactly 0: lost on the way, or inactive on this probe."""

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.loss_dependence import LossDependence
from gradient_check.findings.report import Place, count, some


def judge_zero_gradients(flow: GradientFlow, names: list[str]) -> None:
    """Fail those of `names` that the loss depends on, and warn of the others."""
    if not names:
        return
    lost = _lost(flow, names)
    dead = [name for name in names if name not in lost]
    if lost:
        _report_lost(flow, lost)
    if dead:
        _report_dead(flow, dead)


def _lost(flow: GradientFlow, names: list[str]) -> list[str]:
    """Return the names that the loss depends on, or whose gradient ends at a step function.

    A gate that this probe closes (for example a ReLU) is no fault, because a small move leaves the
    loss unchanged there.
    """
    dependence = LossDependence.of(flow)
    with flow.stand_ins.held():  # a gradient that a declared block stops is not lost
        dependent = dependence.dependent(names)
    gated = [n for n in dependent if flow.diagnosis.is_gated(n) and dependence.is_asleep(n)]
    lost = [name for name in dependent if name not in gated]
    quiet = [name for name in names if name not in lost]
    return lost + [name for name in quiet if flow.diagnosis.is_stepped(name)]


def _report_lost(flow: GradientFlow, names: list[str]) -> None:
    place = flow.diagnosis.spoilt(names, nonfinite=False)
    flow.exam.add(
        "FAIL",
        "grad-zero",
        f"{count(names, 'gradient')} exactly 0 although the loss depends on the "
        f"values: {some(names)}. Look for rounding, a sign, a saturated function "
        "or a factor 0.",
        parameters=names,
        module=place.module,
        line=place.line,
    )


def _report_dead(flow: GradientFlow, names: list[str]) -> None:
    """Warn of each cause by itself; fail if no parameter at all can be trained."""
    groups = flow.diagnosis.ends(names)
    if not any(flow.gradient_norms.values()):
        _report_nothing(flow, names, next(iter(groups)))
        return
    for place, group in groups.items():
        flow.exam.add(
            "WARN",
            "dead",
            f"{count(group, 'gradient')} exactly 0, and the loss does not react to the values on "
            f"this probe: {some(group)}.",
            parameters=group,
            module=place.module or flow.diagnosis.forward.owner(group),
            line=place.line,
        )


def _report_nothing(flow: GradientFlow, names: list[str], place: Place) -> None:
    scaled = flow.subject.options.precision.scaled
    flow.exam.add(
        "FAIL",
        "nothing-trainable",
        f"all {count(names, 'gradient')} are exactly 0, and the loss does not react to the values: "
        "nothing can be trained. Look for a factor 0, a hinge that every example satisfies, or a "
        "target that is the output itself"
        + (", or a loss too small for float16." if scaled else "."),
        parameters=names,
        module=place.module,
        line=place.line,
    )
