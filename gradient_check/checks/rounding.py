"""Step 10 in 16 bits: compares each gradient with that of float32, beside the measured rounding.

The 16 bits are those of the check's precision, or of the module's own casts.

Both gradients are taken at the same nearby points. Rounding errors differ from point to point; the
error of a wrong backward is constant, and is detected if it exceeds the rounding errors.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from gradient_check.checks.flow import GradientFlow
from gradient_check.findings.examination import Numbers, describe
from gradient_check.findings.report import NOWHERE, Place, count, some
from gradient_check.instruments.lifting import Lifted, in_float32
from gradient_check.instruments.noise import real
from gradient_check.instruments.sources import definition
from gradient_check.instruments.subject import Subject
from gradient_check.phases.precision import Precision

_FIRST, _MORE = (11, 12), (13, 14, 15, 16)  # the seeds of the points
_LEAST = 0.04  # share of a gradient's norm: some operations in 16 bits resolve a hundredth of it
_APART = 0.5  # allowed distance of the errors at single points, as a share of the lasting error
_FEW, _APART_OF_FEW = 16, 0.25  # fewer than 16 entries agree by chance more often
_TIMES_LOSS = 10.0  # a gradient may be off by a few times the forward's relative error
# from here on the two precisions compute different things, with other draws of noise
_ANOTHER_LOSS = 0.1
_MOST_ENTRIES = 4_096

_Errors = dict[str, list[Tensor]]


class _Taken(NamedTuple):
    """A loss and its gradients, or how far both are off."""

    loss: float
    gradients: dict[str, Tensor]


def judge_rounding(flow: GradientFlow) -> Numbers:
    """Fail gradients whose difference from those of float32 is not rounding."""
    kept, flow.subject.probe = flow.subject.probe, _rounded(flow, flow.subject.probe)
    try:
        wrong, size, off = _wrong(flow)
    except Exception as error:  # noqa: BLE001 - the code under test may raise anything
        flow.exam.leave_out(f"in float32 the module raised {describe(error)}")
        return {}
    else:
        if off > _ANOTHER_LOSS:
            flow.exam.leave_out(f"the loss of float32 is {off:.1%} off, as by other noise")
            return {}
        flow.exam.grounds.add("rounding")
        if wrong and not flow.exam.has("gradient-wrong"):
            _report(flow, wrong)
        return {"rounding": size, "wrong": len(wrong)}
    finally:
        flow.subject.probe = kept


def _rounded(flow: GradientFlow, probe: Any) -> Any:  # noqa: ANN401 - any pytree
    """Return the probe with values that 16 bits hold, so that inputs are not rounded again."""
    compute = flow.subject.options.precision.compute
    if flow.is_coarse:
        return probe

    def rounded(tensor: Tensor) -> Tensor:
        if not tensor.is_floating_point():
            return tensor
        values = tensor.detach().to(compute).float()
        return values if bool(values.isfinite().all()) else tensor.detach().float()

    return tree_map_only(Tensor, rounded, probe)


def _wrong(flow: GradientFlow) -> tuple[dict[str, float], float, float]:
    """Return the shares of the errors that last, a usual error, and how far a loss was off."""
    wrong: dict[str, float] = {}
    sizes: list[float] = []
    off = 0.0
    for portion in flow.subject.held_first():
        names = [n for n in portion if flow.gradient_norms.get(n, 0.0) > 0]
        errors, its_off = _errors_at(flow, _FIRST, names)
        off = max(off, its_off)
        sizes += [float(each[0].norm()) for each in errors.values()]
        suspects = _lasting(errors, off)
        if suspects and off <= _ANOTHER_LOSS:
            more, its_off = _errors_at(flow, _MORE, list(suspects))
            off = max(off, its_off)
            wrong |= _lasting({name: errors[name] + more.get(name, []) for name in suspects}, off)
    return wrong, float(torch.tensor(sizes or [0.0]).median()), off


def _errors_at(
    flow: GradientFlow, points: Collection[int], names: Collection[str]
) -> tuple[_Errors, float]:
    """Return the errors of gradients at some points, and the most that a loss was off there."""
    errors: _Errors = {}
    off = 0.0
    for point in points if names else ():
        taken = _error_at(flow, point, names)
        off = max(off, taken.loss)
        for name, error in taken.gradients.items():
            errors.setdefault(name, []).append(error)
    return errors, off


def _error_at(flow: GradientFlow, point: int, names: Collection[str]) -> _Taken:
    """Return how far the loss and each gradient are from those of float32, relative to these."""
    with flow.subject.elsewhere(point, names) as loss:
        coarse = _Taken(loss, _sampled(flow.subject, names))
        with _exact(flow):
            exact = _Taken(flow.subject.gradients(), _sampled(flow.subject, names))
    norms = {name: float(gradient.norm()) for name, gradient in exact.gradients.items()}
    errors = {
        name: (coarse.gradients[name] - gradient) / norms[name]
        for name, gradient in exact.gradients.items()
        if name in coarse.gradients and 0 < norms[name] < float("inf")
    }
    return _Taken(abs(coarse.loss - exact.loss) / max(abs(exact.loss), 1e-30), errors)


def _sampled(subject: Subject, names: Collection[str]) -> dict[str, Tensor]:
    own = subject.parameters
    found = {name: own[name].grad for name in names}
    return {name: _sample(g) for name, g in found.items() if g is not None}


@contextmanager
def _exact(flow: GradientFlow) -> Iterator[None]:
    """Let gradients be taken in float32, for a while."""
    loss, step = flow.subject.loss, flow.subject.step
    device = step.precision.device
    kept = step.precision, step.scaler
    step.precision = Precision(device)
    step.scaler = torch.amp.GradScaler(device.type, enabled=False)
    loss.lifted = Lifted() if flow.is_coarse else None
    try:
        yield
    finally:
        step.precision, step.scaler = kept
        loss.lifted = None


def _lasting(errors: _Errors, off: float) -> dict[str, float]:
    """Return the parameters whose errors at all points are nearly one error, and its size."""
    least = max(_LEAST, _TIMES_LOSS * off)
    found = {}
    for name, own in errors.items():
        mean = torch.stack(own).mean(0)
        size = float(mean.norm())
        apart = max(float((error - mean).norm()) for error in own)
        most = _APART if mean.numel() >= _FEW else _APART_OF_FEW
        if size > least and apart <= most * size:
            found[name] = size
    return found


def _report(flow: GradientFlow, wrong: Mapping[str, float]) -> None:
    names = list(wrong)
    worst = max(names, key=lambda name: wrong[name])
    place = _place(flow, worst, wrong[worst])
    where = "the module's own 16 bits" if flow.is_coarse else flow.subject.options.precision
    flow.exam.add(
        "FAIL",
        "gradient-wrong",
        f"in {where} the gradient of {worst} is {wrong[worst]:.0%} of its norm off that of float32 "
        f"at every point, so this is not rounding; off: {count(names)} ({some(names)}). Let the "
        "named backward compute the same in 16 bits.",
        parameters=names,
        module=place.module or flow.diagnosis.forward.owner(names),
        line=place.line,
    )


def _place(flow: GradientFlow, name: str, size: float) -> Place:
    """Return the custom backward that cures the gradient if it is given float32.

    Without such a backward it is the last line that loses a graph, or sets a hook.
    """
    functions = flow.kinds
    for function in functions:
        error = torch.tensor(math.inf)
        with in_float32(function), suppress(Exception):
            (error,) = _error_at(flow, _FIRST[0], [name]).gradients.values()
        if float(error.norm()) < size / 2:
            return Place(None, definition(function.backward))
    if len(functions) == 1:
        return Place(None, definition(functions[0].backward))
    return flow.diagnosis.suspect(NOWHERE)


def _sample(gradient: Tensor) -> Tensor:
    """Return a copy of the entries, or of a fixed number of them in a large tensor, in float32."""
    flat = real(gradient.to_dense()).reshape(-1)
    stride = max(1, flat.numel() // _MOST_ENTRIES) | 1
    return flat[::stride].float().clone()
