"""Step 10 for all parameters together: checks that their gradient is the slope of the loss."""

from contextlib import suppress

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.kept_graphs import report_later_backward
from gradient_check.checks.moving_zeros import note_moving_zeros
from gradient_check.checks.reversed_gradients import judge_reversed_gradients
from gradient_check.checks.slopes import GradientSlopes
from gradient_check.findings.examination import Numbers


def judge_whole_gradient(slopes: GradientSlopes) -> Numbers:
    """Compare central differences along the gradient of all parameters together.

    In a large module, compare each portion whose gradients are stored at a time.
    """
    flow = slopes.flow
    _find_coarse(flow)
    try:
        judge_reversed_gradients(flow)
        _compare_portions(slopes)
    except RuntimeError as error:  # the backward of a later portion raised it
        report_later_backward(flow, error)
        flow.exam.grounds.discard("gradients")
        return {}
    return {"error": max(slopes.verdicts[whole].error for whole in slopes.wholes)}


def _compare_portions(slopes: GradientSlopes) -> None:
    flow = slopes.flow
    portions = flow.subject.held_first()
    for number, names in enumerate(portions, 1):
        whole = "(all)" if len(portions) == 1 else f"(all, {number} of {len(portions)})"
        slopes.wholes[whole] = names
        slopes.compare_whole(whole)
        if flow.subject.is_large:  # while the portion's gradients are in memory
            slopes.compare_blocks(names)
            note_moving_zeros(flow, names)


def _find_coarse(flow: GradientFlow) -> None:
    """Find whether a forward differs, or its graph, without 16-bit parts of the module's own.

    A function's own casts are in no graph. On other devices the function's backward runs on a
    thread without modes, so its casts stay unknown.
    """
    subject = flow.subject
    precision = subject.options.precision
    if precision.autocasts or subject.is_large or not (flow.is_coarse or flow.kinds):
        return
    with suppress(Exception), subject.lifted():
        flow.is_coarse = flow.is_coarse or subject.forward() != flow.loss
        flow.can_lift = flow.is_coarse and (precision.device.type == "cpu" or not flow.kinds)
