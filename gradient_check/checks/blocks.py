"""Step 10 by block: checks that each part of the gradient is the slope of the loss."""

from collections.abc import Mapping

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.slopes import GradientSlopes
from gradient_check.checks.wrong_gradients import judge_wrong_gradients
from gradient_check.findings.examination import Examination, Numbers
from gradient_check.findings.report import count, some
from gradient_check.instruments.differences import Verdict

_POINTS = 2
_FAR = 0.5  # times the weights' spread
_ROUNDING = 1e-6  # the rounding of numbers around 1 in float32


def judge_blocks(slopes: GradientSlopes) -> Numbers:
    """Compare central differences by block, or by parameter if that is quick.

    If the module has 16-bit parts of its own, the differences are taken without these parts, whose
    rounding proves nothing; the step of rounding compares that gradient with the one in 16 bits.
    """
    if not slopes.flow.can_lift:
        return _judge(slopes)
    with slopes.flow.subject.lifted():
        for whole in slopes.wholes:
            slopes.compare_whole(whole)
        return _judge(slopes)


def _judge(slopes: GradientSlopes) -> Numbers:
    flow, exam = slopes.flow, slopes.flow.exam
    slopes.compare_blocks(flow.subject.names)
    verdicts = slopes.verdicts
    wrong = _confirmed(slopes, [block for block, found in verdicts.items() if found.wrong])
    rough = [block for block, found in verdicts.items() if found.rough]
    if wrong or rough:
        wrong, rough = judge_wrong_gradients(slopes, wrong, rough)
    unproved = [b for b, found in verdicts.items() if b in rough or _is_below_noise(found)]
    if not wrong and len(unproved) == len(verdicts):
        _judge_noise(flow)
    if rough and not wrong and not exam.has("flat"):
        _report_rough(exam, rough)
    is_judged = exam.has("gradient-wrong", "flat")
    unseen = [] if is_judged else _unverified(verdicts, slopes.shares)
    if unseen:
        _note_unverified(exam, unseen)
    errors = [verdict.error for verdict in verdicts.values()]
    return {"worst error": max(errors, default=0.0), "unverified": len(unseen)}


def _confirmed(slopes: GradientSlopes, wrong: list[str]) -> list[str]:
    """Return the blocks that are wrong at nearby points too.

    At a kink (a maximum of two equals, say) a difference is the mean of two slopes; at nearby
    points it is one slope.
    """
    for number in range(1, _POINTS + 1):
        if not wrong:
            break
        with slopes.flow.subject.elsewhere(number, slopes.names_of(wrong)) as loss:
            wrong = [block for block in wrong if slopes.compare_again(block, loss).wrong]
    return wrong


def _judge_noise(flow: GradientFlow) -> None:
    """Report a loss that stays at rounding noise even when all parameters move far."""
    with flow.subject.moved(flow.subject.names, _FAR):
        if max(abs(flow.loss), abs(flow.subject.forward())) >= _ROUNDING:
            return
    flow.exam.add(
        "FAIL",
        "flat",
        f"the loss is {flow.loss:.1e} for all values of the parameters, and both the loss and its "
        "gradient are rounding noise: nothing can be trained. Compare the output with something "
        "other than itself.",
    )


def _report_rough(exam: Examination, rough: list[str]) -> None:
    """Report blocks along whose gradient no two differences agree."""
    exam.add(
        "WARN",
        "rough",
        f"the loss jumps or bends along the gradient of {some(rough)}, so differences "
        "prove nothing there (rounding, a straight-through estimator, sampling?).",
    )


def _note_unverified(exam: Examination, names: list[str]) -> None:
    exam.add(
        "NOTE",
        "unverified",
        f"{count(names)} not verified: their effect on this probe's loss is too small beside "
        f"its rounding noise, or beside their block's error: {some(names)}. The gradient exists; "
        "its value was not proved.",
        parameters=names,
    )


def _unverified(
    verdicts: Mapping[str, Verdict], shares: Mapping[str, Mapping[str, float]]
) -> list[str]:
    """Return the parameters whose gradients could be wrong by half, unseen by differences.

    Their share of the predicted change is small beside the noise, or beside their block's error.
    """
    found = []
    for block, own in shares.items():
        verdict = verdicts[block]
        whole = sum(own.values())
        if not (verdict.rough or verdict.wrong):
            least = 2 * max(verdict.noise, verdict.error * verdict.predicted) * whole
            found += [n for n, each in own.items() if each * verdict.predicted < least]
    return found


def _is_below_noise(verdict: Verdict) -> bool:
    """Return whether the noise is larger than the difference that the whole gradient predicts."""
    is_judged = verdict.wrong or verdict.rough
    return not is_judged and verdict.predicted <= 2 * verdict.noise
