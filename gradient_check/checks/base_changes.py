"""Step 14: checks that the base, the caller's module and the process are unchanged."""

from collections.abc import Iterator

from torch import nn

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.operation import Operation, apart, close
from gradient_check.diagnosis.base_writes import place_of_write
from gradient_check.findings.examination import Numbers, attempted
from gradient_check.findings.report import NOWHERE, Place

_WRITTEN = (
    "A module may write only to its own non-persistent buffers. Select a part that training "
    "updates in its forward (a momentum encoder) as well, by `trainable` with `unused`: the part "
    "then has its own copy."
)
_RESCALED = (
    "`max_norm` rescales weights in every forward, also while the base answers: remove it, and "
    "rescale the weights when they are made and after each step."
)


def judge_base(operation: Operation) -> Numbers:
    """Check that the base serves as before, and that base, caller and process are unchanged."""
    _judge_answer(operation)
    _judge_writes(operation)
    _judge_flags(operation.flow)
    return {}


def _judge_answer(operation: Operation) -> None:
    served = operation.served
    if served is None or "served" not in operation.flow.exam.grounds:
        return
    subject = operation.flow.subject
    answer = subject.serve(subject.base, subject.seed)
    if not close(served, answer, operation.same):
        operation.flow.exam.add(
            "FAIL",
            "base-changed",
            f"the base answers differently after training a replica: {apart(served, answer)}. The "
            "two share state that they must not share.",
        )


def _judge_writes(operation: Operation) -> None:
    changes = operation.changes_at_end()
    changes += operation.flow.guard.module_changes()
    if not changes:
        return
    written = [c for c in changes if "version" not in c]
    rescaling = _rescaling(operation.flow.subject.base, changes)
    names = {change.removeprefix("tensor ").split(" ")[0] for change in written or changes}
    own = [name for name in _names_of(operation.flow.subject.base) if name in names]
    place = rescaling or attempted(
        lambda: place_of_write(operation.flow.diagnosis.forward, own), NOWHERE
    )
    operation.flow.exam.add(
        "FAIL",
        "base-changed",
        f"forwards changed the base: {'; '.join((written or changes)[:3])}. "
        f"{_RESCALED if rescaling else _WRITTEN}",
        module=place.module,
        line=place.line,
    )


def _rescaling(base: nn.Module, changes: list[str]) -> Place | None:
    """Return the embedding that rescaled its weight; None if anything else has changed."""
    written = {change.removeprefix("tensor ").split(" ")[0] for change in changes}
    parts = base.named_modules()
    own = {f"{n}.weight".lstrip("."): p for n, p in parts if getattr(p, "max_norm", None)}
    if not written <= own.keys():
        return None
    name = min(written)
    path = name.removesuffix("weight").rstrip(".") or "(root)"
    return Place(f"{path} ({type(own[name]).__name__})", f"max_norm={own[name].max_norm}")


def _judge_flags(flow: GradientFlow) -> None:
    flags = flow.guard.process_changes()
    if not flags:
        return
    place = flow.diagnosis.forward.tampering("flags")
    flow.exam.add(
        "FAIL",
        "flags-changed",
        f"process flags changed: {'; '.join(flags)}. Set them once, outside the model.",
        module=place.module,
        line=place.line,
    )


def _names_of(module: nn.Module) -> Iterator[str]:
    """Yield the names of a module's parameters and buffers."""
    yield from (name for name, _ in module.named_parameters(remove_duplicate=False))
    yield from (name for name, _ in module.named_buffers(remove_duplicate=False))
