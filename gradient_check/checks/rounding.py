"""Step 10 in 16 bits: compares each gradient with that of float32, beside the measured rounding.

The 16 bits are those of the check's precision, or of the module's own casts.

Both are taken at the same points near by. Rounding errors differ from point to point; the error of
a wrong backward stays, and shows as far as it stands out of what differs.
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
from gradient_check.phases.precision import Precision

_FIRST, _MORE = (11, 12), (13, 14, 15, 16)  # points
_LEAST = 0.04  # of a gradient's norm: 16 bits resolve a hundredth of it after some operations
_APART = 0.5  # of the lasting error: how far the errors at single points may be from it
_FEW, _APART_OF_FEW = 16, 0.25  # entries, which agree by chance more often
_TIMES_LOSS = 10.0  # a forward that is off by so much has a gradient that is off by a few times it
_ANOTHER_LOSS = 0.1  # then the two precisions compute different things: other draws of noise
_MOST_ENTRIES = 4_096

_Errors = dict[str, list[Tensor]]


class _Taken(NamedTuple):
    loss: float
    gradients: dict[str, Tensor]


class Rounding:
    """Judges the gradients of 16 bits."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.exam = flow.exam
        self._off = 0.0  # of the loss, relative

    def judge(self) -> Numbers:
        """Fail gradients whose difference from float32's is none of rounding's."""
        kept, self.subject.probe = self.subject.probe, self._rounded(self.subject.probe)
        try:
            wrong, size = self._wrong()
        except Exception as error:  # noqa: BLE001 - the code under test may raise anything
            self.exam.leave_out(f"in float32 the module raised {describe(error)}")
            return {}
        else:
            if self._off > _ANOTHER_LOSS:
                self.exam.leave_out(
                    f"the loss of float32 is {self._off:.1%} off, as by other noise"
                )
                return {}
            self.exam.grounds.add("rounding")
            if wrong and not self.exam.has("gradient-wrong"):
                self._report(wrong)
            return {"rounding": size, "wrong": len(wrong)}
        finally:
            self.subject.probe = kept

    def _rounded(self, probe: Any) -> Any:  # noqa: ANN401 - any pytree
        """Return the probe with values that 16 bits hold, so that inputs are not rounded again."""
        compute = self.subject.options.precision.compute
        if self.flow.is_coarse:
            return probe

        def rounded(tensor: Tensor) -> Tensor:
            if not tensor.is_floating_point():
                return tensor
            values = tensor.detach().to(compute).float()
            return values if bool(values.isfinite().all()) else tensor.detach().float()

        return tree_map_only(Tensor, rounded, probe)

    def _wrong(self) -> tuple[dict[str, float], float]:
        """Return the parameters whose error lasts, each with its share; and a usual error."""
        wrong: dict[str, float] = {}
        sizes: list[float] = []
        for portion in self.subject.held_first():
            names = [n for n in portion if self.flow.gradient_norms.get(n, 0.0) > 0]
            errors: _Errors = {}
            self._add(errors, names, _FIRST)
            sizes += [float(each[0].norm()) for each in errors.values()]
            suspects = self._lasting(errors)
            if suspects and self._off <= _ANOTHER_LOSS:
                self._add(errors, list(suspects), _MORE)
                wrong |= self._lasting({name: errors[name] for name in suspects})
        return wrong, float(torch.tensor(sizes or [0.0]).median())

    def _add(self, errors: _Errors, names: Collection[str], points: Collection[int]) -> None:
        for point in points:
            for name, error in self._errors(point, names).items():
                errors.setdefault(name, []).append(error)

    def _errors(self, point: int, names: Collection[str]) -> dict[str, Tensor]:
        """Return each gradient's difference from that of float32, over the norm of the latter."""
        if not names:
            return {}
        with self.subject.elsewhere(point, names) as loss:
            coarse = _Taken(loss, self._sampled(names))
            with self._exact():
                exact = _Taken(self.subject.gradients(), self._sampled(names))
        self._off = max(self._off, abs(coarse.loss - exact.loss) / max(abs(exact.loss), 1e-30))
        norms = {name: float(gradient.norm()) for name, gradient in exact.gradients.items()}
        return {
            name: (coarse.gradients[name] - gradient) / norms[name]
            for name, gradient in exact.gradients.items()
            if name in coarse.gradients and 0 < norms[name] < float("inf")
        }

    def _sampled(self, names: Collection[str]) -> dict[str, Tensor]:
        own = self.subject.parameters
        found = {name: own[name].grad for name in names}
        return {name: _sample(g) for name, g in found.items() if g is not None}

    @contextmanager
    def _exact(self) -> Iterator[None]:
        """Let gradients be taken in float32, for a while."""
        loss, step, device = (
            self.subject.loss,
            self.subject.step,
            self.subject.step.precision.device,
        )
        kept = step.precision, step.scaler
        step.precision = Precision(device)
        step.scaler = torch.amp.GradScaler(device.type, enabled=False)
        loss.lifted = Lifted() if self.flow.is_coarse else None
        try:
            yield
        finally:
            step.precision, step.scaler = kept
            loss.lifted = None

    def _lasting(self, errors: Mapping[str, list[Tensor]]) -> dict[str, float]:
        """Return the parameters whose errors at all points are nearly one error, and its size."""
        least = max(_LEAST, _TIMES_LOSS * self._off)
        found = {}
        for name, own in errors.items():
            mean = torch.stack(own).mean(0)
            size = float(mean.norm())
            apart = max(float((error - mean).norm()) for error in own)
            most = _APART if mean.numel() >= _FEW else _APART_OF_FEW
            if size > least and apart <= most * size:
                found[name] = size
        return found

    def _report(self, wrong: Mapping[str, float]) -> None:
        names = list(wrong)
        worst = max(names, key=lambda name: wrong[name])
        place = self._place(worst, wrong[worst])
        where = (
            "the module's own 16 bits" if self.flow.is_coarse else self.subject.options.precision
        )
        self.exam.add(
            "FAIL",
            "gradient-wrong",
            f"in {where} the gradient of {worst} is "
            f"{wrong[worst]:.0%} of its norm off that of float32 at every point, which rounding is "
            f"not; off: {count(names)} ({some(names)}). Let the backward that is named compute "
            "the same in 16 bits.",
            parameters=names,
            module=place.module or self.flow.diagnosis.forward.owner(names),
            line=place.line,
        )

    def _place(self, name: str, size: float) -> Place:
        """Return the custom backward that cures the gradient if it is given float32.

        Without such a backward it is the last line that loses a graph, or sets a hook.
        """
        functions = self.flow.kinds
        for function in functions:
            error = torch.tensor(math.inf)
            with in_float32(function), suppress(Exception):
                (error,) = self._errors(_FIRST[0], [name]).values()
            if float(error.norm()) < size / 2:
                return Place(None, definition(function.backward))
        if len(functions) == 1:
            return Place(None, definition(functions[0].backward))
        return self.flow.diagnosis.suspect(NOWHERE)


def find_coarse(flow: GradientFlow) -> None:
    """Find whether a forward differs, or its graph, without 16-bit parts of the module's own.

    A function's own casts are in no graph. On other devices its backward runs on a thread that
    has no modes, so that there is no telling.
    """
    subject = flow.subject
    precision = subject.options.precision
    if precision.autocasts or subject.is_large or not (flow.is_coarse or flow.kinds):
        return
    with suppress(Exception), subject.lifted():
        flow.is_coarse = flow.is_coarse or subject.forward() != flow.loss
        flow.can_lift = flow.is_coarse and (precision.device.type == "cpu" or not flow.kinds)


def _sample(gradient: Tensor) -> Tensor:
    """Return a copy of the entries, or of so many of a large tensor, in float32."""
    flat = real(gradient.to_dense()).reshape(-1)
    stride = max(1, flat.numel() // _MOST_ENTRIES) | 1
    return flat[::stride].float().clone()
