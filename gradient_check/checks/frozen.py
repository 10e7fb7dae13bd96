"""Judges parameters that the caller's module freezes and the test has thawed."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.peft_advice import advice_for_frozen
from gradient_check.findings.examination import Numbers, describe
from gradient_check.findings.report import count, some
from gradient_check.instruments.ownership import in_minority
from gradient_check.instruments.subject import Subject

_ADVICE = "Call `requires_grad_(True)` on those to be trained, or select the others (`trainable`)."


def judge_frozen(flow: GradientFlow) -> Numbers:
    """Name frozen parameters; check that the others get gradients beside them."""
    names = flow.subject.names
    trains = flow.guard.requires_grad
    frozen = [n for n in names if not trains[n]] if flow.subject.options.thaws else []
    if not frozen:
        return {"frozen": 0}
    free = [name for name in names if name not in frozen]
    few = in_minority(flow.subject.replica, frozen, free) if 10 * len(frozen) < len(names) else ()
    # `few` are a library's own, for instance positions
    shown = [name for name in frozen if name not in few]
    if shown:
        flow.exam.add(
            "NOTE" if free else "WARN",  # freezing only a part is usual
            "frozen",
            f"{count(shown)} of {len(names)} frozen in your module, and tested thawed: "
            f"{some(shown)}. {advice_for_frozen(flow.guard.module) or _ADVICE}",
            parameters=shown,
        )
    if free:
        _judge_free(flow, frozen, free)
    return {"frozen": len(frozen)}


def _judge_free(flow: GradientFlow, frozen: Collection[str], free: Collection[str]) -> None:
    """Check that the free parameters still get gradients while the others are frozen."""
    subject, norms = flow.subject, flow.gradient_norms
    with _freezing(subject, frozen):
        error = _error_of_a_step(subject)
        lost = [n for n in free if norms.get(n) and n not in subject.held.arrived]
        if not lost:
            return
        place = flow.diagnosis.missing(lost)
    flow.exam.add(
        "FAIL",
        "graph-cut",
        f"{count(lost)} without a gradient when the parameters that your module freezes are "
        f"frozen: {some(lost)}{error}. Checkpoint with use_reentrant=False, or let the inputs of "
        "the recomputed part require a gradient.",
        parameters=lost,
        module=place.module,
        line=place.line,
    )


def _error_of_a_step(subject: Subject) -> str:
    """Run a forward and a backward; return a phrase for the error that they raised."""
    try:
        subject.gradients()
    except Exception as error:  # noqa: BLE001 - the code under test may raise anything
        return f" ({describe(error)})"
    return ""


@contextmanager
def _freezing(subject: Subject, names: Collection[str]) -> Iterator[None]:
    """Freeze these parameters for a while; afterwards all gradients are restored."""
    kept = {n: p.grad for n, p in subject.parameters.items() if not subject.is_large}
    subject.frozen = frozenset(names)
    try:
        with subject.held.keeping(()):
            yield
    finally:
        subject.frozen = frozenset()
        subject.thaw()
        for name, gradient in kept.items():
            subject.parameters[name].grad = gradient
