"""Step 9 at the module's own values: parameters that no step can move from there.

A factor whose partner is 0 has a gradient of 0; if both factors are 0 (for example both matrices of
LoRA), both gradients are 0. Perturbed values hide this fault.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor

from gradient_check.checks.flow import GradientFlow
from gradient_check.diagnosis.definitions import zeroed
from gradient_check.findings.examination import Numbers
from gradient_check.findings.report import count, some
from gradient_check.instruments.subject import Subject

_ROUNDS = 2
_MOST_TRIED = 4


def judge_starting_point(flow: GradientFlow) -> Numbers:
    """Fail parameters whose gradients are 0 at the start and at all values of the others.

    A large module is not judged: there is no memory for a copy of its values.
    """
    template = dict(flow.subject.template.named_parameters())
    values = {name: template[name].detach() for name in flow.subject.names}
    zeros = [name for name, value in values.items() if not bool(value.any())]
    if len(zeros) < 2:
        return {}
    if flow.subject.is_large:
        flow.exam.leave_out("a large module's own values are not copied")
        return {}
    with _at_the_start(flow.subject, values):
        stuck = _stuck(flow)
        holding = [name for name in zeros if name in stuck][:_MOST_TRIED]
        if not any(_wakes_others(flow.subject, name, stuck) for name in holding):
            return {"stuck": 0}
    flow.exam.add(
        "FAIL",
        "grad-zero",
        f"{count(stuck, 'gradient')} exactly 0 at the module's own values, for all values of the "
        f"others: {some(stuck)}. Factors that all begin at 0 stay at 0: start one of them at "
        "another value.",
        parameters=stuck,
        module=flow.diagnosis.forward.owner(stuck),
        line=_line(flow, [name for name in zeros if name in stuck] + stuck),
    )
    return {"stuck": len(stuck)}


def _line(flow: GradientFlow, names: list[str]) -> str | None:
    """Return the line that makes one of these begin at 0; else the line that uses the first."""
    lines = (zeroed(flow.subject.replica, name) for name in names)
    found = next(filter(None, lines), None)
    return found or flow.diagnosis.forward.first_use(names[0]).line


@contextmanager
def _at_the_start(subject: Subject, values: dict[str, Tensor]) -> Iterator[None]:
    own = subject.parameters
    kept = {name: (p.detach().clone(), p.grad) for name, p in own.items()}
    try:
        _put(subject, values)
        yield
    finally:
        for name, (value, gradient) in kept.items():
            own[name].detach().copy_(value)
            own[name].grad = gradient


def _put(subject: Subject, values: dict[str, Tensor]) -> None:
    for name, value in values.items():
        subject.parameters[name].detach().copy_(value)


def _stuck(flow: GradientFlow) -> list[str]:
    """Return the parameters without a gradient here and after any move of those with one."""
    stuck = [name for name, norm in flow.gradient_norms.items() if norm > 0]
    for number in range(1, _ROUNDS + 1):
        still = _zero_of(flow.subject, stuck) if stuck else []
        flow.subject.perturb([n for n in stuck if n not in still], salt=number)
        stuck = still
    return _zero_of(flow.subject, stuck) if stuck else []


def _wakes_others(subject: Subject, name: str, stuck: list[str]) -> bool:
    """Return whether other parameters get a gradient after this one alone is moved."""
    kept = subject.parameters[name].detach().clone()
    subject.perturb([name], salt=_ROUNDS + 1)
    others = [each for each in stuck if each != name]
    woken = len(_zero_of(subject, others)) < len(others)
    _put(subject, {name: kept})
    return woken


def _zero_of(subject: Subject, names: list[str]) -> list[str]:
    """Return those of some parameters whose gradients are all 0 at the present values."""
    own = subject.parameters
    for parameter in own.values():
        parameter.grad = None
    subject.gradients()
    found = {name: own[name].grad for name in names}
    return [n for n, g in found.items() if g is not None and not bool(g.to_dense().any())]
