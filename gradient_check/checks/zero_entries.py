"""Step 10 for single entries: checks that entries without gradient leave the loss unchanged."""

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.moving_zeros import note_moving_zeros, zeros_move
from gradient_check.findings.examination import Numbers
from gradient_check.findings.report import some
from gradient_check.instruments.differences import SIXTEEN_BIT


def judge_zero_entries(flow: GradientFlow) -> Numbers:
    """Check that entries without gradient, in parameters with one, do not change the loss."""
    subject, exam = flow.subject, flow.exam
    if flow.limits is SIXTEEN_BIT:
        if "rounding" not in exam.grounds:  # the check of rounding compares entries with float32's
            exam.leave_out("rounding hides what single entries change")
        return {}
    if exam.has("gradient-wrong"):
        return {}
    for portion in subject.held_first():
        note_moving_zeros(flow, portion)
    moving = [name for found in flow.moving_zeros.values() for name in found]
    if moving:
        with subject.elsewhere(1, moving):
            moving = [n for n in moving if zeros_move(flow, [n])]
    if moving:
        place = flow.diagnosis.wrong(moving)
        exam.add(
            "FAIL",
            "gradient-wrong",
            f"a part of the gradients of {some(moving)} is exactly 0 although the loss depends on "
            "those entries. The graph is cut for a part of a tensor.",
            parameters=moving,
            module=place.module,
            line=place.line,
        )
    return {"moving": len(moving)}
