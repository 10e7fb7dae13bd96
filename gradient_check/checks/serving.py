"""Step 9 for serving: checks that inference and an eval forward with gradients compute the same."""

from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.holdings import holdings_of
from gradient_check.checks.kept_inferences import evaluated_under_watch
from gradient_check.checks.later_inferences import judge_later_inferences
from gradient_check.checks.noise_scales import shape_noise
from gradient_check.checks.operation import Operation, close
from gradient_check.checks.serving_differences import report_serving_difference
from gradient_check.diagnosis.copies import Copies
from gradient_check.findings.examination import Numbers, attempted
from gradient_check.findings.report import some
from gradient_check.instruments.graph import reached_leaves


def judge_serving(operation: Operation) -> Numbers:
    """Check that inference and an eval forward with gradients compute the same."""
    flow, subject = operation.flow, operation.flow.subject
    subject.put_back_buffers()
    adapted = subject.adapted()
    before = holdings_of(adapted)
    served = subject.serve(adapted, subject.seed)
    subject.put_back_buffers()
    evaluated, reached = _evaluated(flow)
    if not close(evaluated, served, 10 * operation.same, flow.scale):
        report_serving_difference(operation, served, evaluated)
        return {}
    judge_later_inferences(operation, adapted, before)
    trained = [n for n, norm in flow.gradient_norms.items() if norm > 0]
    ignored = [n for n in trained if id(subject.parameters[n]) not in reached]
    if ignored and _does_without(operation, ignored, evaluated):
        _report_ignored(flow, ignored, trained)
    return {}


def _evaluated(flow: GradientFlow) -> tuple[Tensor, set[int]]:
    """Return the losses of an eval forward, and the ids of the leaves of its graph."""
    subject = flow.subject
    reached: dict[int, Tensor] = {}
    subject.loss.observer = lambda losses: reached.update(reached_leaves(losses))
    try:
        watched = attempted(lambda: evaluated_under_watch(flow), None)
        return subject.evaluate() if watched is None else watched, set(reached)
    finally:
        subject.loss.observer = None


def _does_without(operation: Operation, names: list[str], losses: Tensor) -> bool:
    """Return whether an eval forward has the same losses after these parameters are moved."""
    subject = operation.flow.subject
    with subject.moved(names, 0.5):
        subject.put_back_buffers()
        return close(losses, subject.evaluate(), operation.same)


def _report_ignored(flow: GradientFlow, names: list[str], trained: list[str]) -> None:
    """Report trained parameters that an eval forward does not use."""
    copy, place = Copies(flow.diagnosis).kept(names, training=False)
    is_certain = bool(copy) or len(names) == len(trained)
    if not is_certain and shape_noise(flow, names):
        flow.exam.add(
            "NOTE",
            "serve-differs",
            f"inference does not use {some(names)}, which shape the noise that training draws.",
            parameters=names,
        )
        return
    flow.exam.add(
        "FAIL" if is_certain else "WARN",
        "serve-differs",
        f"inference does not use {len(names)} of {len(trained)} trained parameters: "
        f"{some(names)}.{copy} This is right only for an auxiliary head.",
        parameters=names,
        module=place.module or flow.diagnosis.forward.owner(names),
        line=place.line,
    )
