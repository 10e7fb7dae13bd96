"""Step 11: takes a step of the real optimizer, which the next forward must reflect."""

import math
from dataclasses import dataclass
from functools import partial

from gradient_check.checks.entry_samples import EntrySamples
from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.kept_graphs import report_later_backward
from gradient_check.checks.optimizer_groups import optimizer_fits
from gradient_check.checks.still_loss import judge_still_loss
from gradient_check.findings.examination import Numbers, describe
from gradient_check.findings.report import count, some
from gradient_check.instruments.portions import STEPS
from gradient_check.instruments.subject import Subject
from gradient_check.phases.loss_growth import is_multiplied


@dataclass(frozen=True)
class _Step:
    """One step: the loss before and after (NaN: not measured), and the unmoved parameters."""

    before: float
    after: float
    descent: float
    lost: tuple[str, ...]
    reached: int


def judge_update(flow: GradientFlow) -> Numbers:
    """Check that a step of the real optimizer changes every trained parameter, and the loss.

    In a large module a step is taken for each portion of the parameters, with the gradients and the
    optimizer's state of this portion alone.
    """
    if not optimizer_fits(flow.subject, flow.exam):
        return {}
    taken: list[_Step] = []
    for names in flow.subject.portions(STEPS):
        looks = all(each.before == each.after for each in taken)  # no step has changed the loss yet
        step = _step(flow, names, looks=looks)
        if step is None:
            return {}
        taken.append(step)
    flow.exam.grounds.add("stepped")
    return _judge(flow, taken)


def _step(flow: GradientFlow, names: list[str], *, looks: bool) -> _Step | None:
    """Take a step, and look at the next forward; report an error, and return None."""
    subject = flow.subject
    if subject.weights is not None:
        subject.step.optimizer.state.clear()
        subject.hold_only(names)
        subject.give_back()
    samples = EntrySamples({name: subject.parameters[name] for name in names})
    subject.put_back_buffers()
    hook = subject.step.optimizer.register_step_pre_hook(partial(_prepare, subject, samples))
    try:
        result = subject.take_step()
    except RuntimeError as error:
        if "sparse grad" in str(error):
            _report_sparse(flow, error, samples.sparse)
        else:
            report_later_backward(flow, error)
        return None
    finally:
        hook.remove()
    norms, moved = flow.gradient_norms, samples.moved()
    reached = [n for n in moved if norms.get(n, 0.0) > 0]
    lost = [n for n in reached if not bool(moved[n].any())]
    own = subject.parameters
    _report_cut(flow, [n for n in names if norms.get(n, 0.0) > 0 and own[n].grad is None])
    following = subject.forward() if looks else math.nan
    descent = sum(float((moved[n] * samples.of_gradient(n)).sum()) for n in reached)
    before = flow.loss if subject.weights is None else result.loss
    return _Step(
        before=before, after=following, descent=descent, lost=tuple(lost), reached=len(reached)
    )


def _judge(flow: GradientFlow, taken: list[_Step]) -> Numbers:
    exam, descent = flow.exam, sum(step.descent for step in taken)
    lost = [name for step in taken for name in step.lost]
    if lost and not exam.has("lr-zero"):
        exam.add(
            "FAIL",
            "step-lost",
            f"a step left {count(lost)} unchanged bit for bit: {some(lost)}. The update is smaller "
            "than their dtype resolves, or the optimizer leaves them out.",
            parameters=lost,
        )
    moving = [step for step in taken if len(step.lost) < step.reached]
    if moving and all(step.before == step.after for step in taken):
        longest = max(moving, key=lambda step: abs(step.descent))
        judge_still_loss(flow, longest.before, longest.descent)
    if descent > 0:
        exam.add("WARN", "ascent", f"the step raises the loss by about {descent:.3g}.")
    first = taken[0]  # the loss after the first step is always measured
    if math.isnan(first.after):
        exam.add(
            "FAIL",
            "loss-nonfinite",
            "the loss is nan after one step of the optimizer. Take a smaller learning rate.",
        )
    elif is_multiplied(first.before, first.after):
        exam.add(
            "WARN",
            "step-too-long",
            f"one step of the optimizer raises the loss from {first.before:.3g} to "
            f"{first.after:.3g}: the learning rate is too high for this model. Take a tenth of it.",
        )
    last = ([step for step in taken if not math.isnan(step.after)] or taken)[-1]
    return {"loss before": last.before, "loss after": last.after, "predicted": descent}


def _report_cut(flow: GradientFlow, cut: list[str]) -> None:
    """Report parameters that had a gradient in the first step and have none in this one."""
    if not cut:
        return
    place = flow.diagnosis.missing(cut)
    flow.exam.add(
        "FAIL",
        "graph-cut",
        f"{count(cut)} with a gradient in the first step, but without one in a later step: "
        f"{some(cut)}. A forward must compute the same function in each call.",
        parameters=cut,
        module=place.module,
        line=place.line,
    )


def _report_sparse(flow: GradientFlow, error: RuntimeError, names: list[str]) -> None:
    """Report an optimizer that takes no sparse gradients."""
    flow.exam.add(
        "FAIL",
        "optimizer",
        f"the optimizer refuses the sparse gradient of {some(names)}: {describe(error)}. Give "
        "it to torch.optim.SparseAdam or SGD, or build the embedding with sparse=False.",
        parameters=names,
        module=flow.diagnosis.forward.owner(names) if names else None,
    )


def _prepare(subject: Subject, samples: EntrySamples, *_: object) -> None:
    """Record the optimizer's parameters just before it makes its own tensors."""
    samples.take()
    subject.give_back()
