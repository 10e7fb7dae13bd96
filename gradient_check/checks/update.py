"""Step 11: takes a step of the real optimizer, which the next forward must see."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from gradient_check.checks.kept_graphs import report_later_backward
from gradient_check.checks.operation import Operation
from gradient_check.checks.optimizer_groups import optimizer_fits
from gradient_check.checks.shaking import Perturbation
from gradient_check.findings.examination import Numbers, describe
from gradient_check.findings.report import count, some
from gradient_check.instruments.differences import SIXTEEN_BIT
from gradient_check.instruments.noise import real
from gradient_check.instruments.portions import STEPS
from gradient_check.instruments.subject import Subject

_SAMPLE = 16_384
_ROW = 4_096


@dataclass(frozen=True)
class _Step:
    """One step: the loss before and after (NaN: nobody looked), and what did not move."""

    before: float
    after: float
    descent: float
    lost: tuple[str, ...]
    reached: int


class _Samples:
    """Entries of parameters before and after a step, the one of the largest gradient among them."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self.parameters = parameters
        self.sparse: list[str] = []
        self._places: dict[str, int] = {}
        self._before: dict[str, Tensor] = {}

    def take(self) -> None:
        """Note what the optimizer is about to change: those with a gradient other than 0."""
        for name, parameter in self.parameters.items():
            gradient = parameter.grad
            if gradient is not None and gradient.is_sparse:
                self.sparse.append(name)
            place = None if gradient is None else _largest(gradient)
            if place is not None:
                self._places[name] = place
                self._before[name] = _entries(parameter, place)

    def moved(self) -> dict[str, Tensor]:
        """Return how far the entries have moved."""
        own = {n: _entries(self.parameters[n], place) for n, place in self._places.items()}
        return {name: entries.sub_(self._before[name]) for name, entries in own.items()}

    def of_gradient(self, name: str) -> Tensor:
        """Return the gradient's entries."""
        gradient = self.parameters[name].grad
        return _entries(self.parameters[name] if gradient is None else gradient, self._places[name])


class Update:
    """Takes optimizer steps, and checks what they change."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.subject = operation.subject
        self.exam = operation.exam
        self.flow = operation.flow

    def take_step(self) -> Numbers:
        """Check that a step of the real optimizer changes every trained parameter, and the loss.

        In a large module it takes a step for each portion of the parameters, whose gradients and
        whose state of the optimizer alone are there then.
        """
        if not optimizer_fits(self.subject, self.exam):
            return {}
        taken: list[_Step] = []
        for names in self.subject.portions(STEPS):
            looks = all(each.before == each.after for each in taken)  # no step was seen yet
            step = self._step(names, looks=looks)
            if step is None:
                return {}
            taken.append(step)
        self.exam.grounds.add("stepped")
        return self._judge(taken)

    def _step(self, names: list[str], *, looks: bool) -> "_Step | None":
        """Take a step, and look at the next forward; None where it raised, which is reported."""
        subject = self.subject
        if subject.weights is not None:
            subject.step.optimizer.state.clear()
            subject.hold_only(names)
            subject.give_back()
        samples = _Samples({name: subject.parameters[name] for name in names})
        subject.put_back_buffers()
        hook = subject.step.optimizer.register_step_pre_hook(partial(_prepare, subject, samples))
        try:
            result = subject.take_step()
        except RuntimeError as error:
            if "sparse grad" in str(error):
                self._report_sparse(error, samples.sparse)
            else:
                report_later_backward(self.flow, error)
            return None
        finally:
            hook.remove()
        norms, moved = self.flow.gradient_norms, samples.moved()
        reached = [n for n in moved if norms.get(n, 0.0) > 0]
        lost = [n for n in reached if not bool(moved[n].any())]
        own = subject.parameters
        self._report_cut([n for n in names if norms.get(n, 0.0) > 0 and own[n].grad is None])
        following = subject.forward() if looks else math.nan
        descent = sum(float((moved[n] * samples.of_gradient(n)).sum()) for n in reached)
        before = self.flow.loss if subject.weights is None else result.loss
        return _Step(before, following, descent, tuple(lost), len(reached))

    def _judge(self, taken: "list[_Step]") -> Numbers:
        exam, descent = self.exam, sum(step.descent for step in taken)
        lost = [name for step in taken for name in step.lost]
        if lost and not exam.has("lr-zero"):
            exam.add(
                "FAIL",
                "step-lost",
                f"a step left {count(lost)} bit for bit as before: {some(lost)}. The "
                "update is smaller than their dtype resolves, or the optimizer leaves them out.",
                parameters=lost,
            )
        moving = [step for step in taken if len(step.lost) < step.reached]
        if moving and all(step.before == step.after for step in taken):
            self._judge_still(max(moving, key=lambda step: abs(step.descent)))
        if descent > 0:
            exam.add("WARN", "ascent", f"the step raises the loss by about {descent:.3g}.")
        if math.isnan(taken[0].after):  # the first step is always looked at
            exam.add(
                "FAIL",
                "loss-nonfinite",
                "the loss is nan after one step of the optimizer. Take a smaller learning rate.",
            )
        last = ([step for step in taken if not math.isnan(step.after)] or taken)[-1]
        return {"loss before": last.before, "loss after": last.after, "predicted": descent}

    def _report_cut(self, cut: list[str]) -> None:
        """Report parameters that had a gradient in the first step and have none in this one."""
        if not cut:
            return
        place = self.flow.diagnosis.missing(cut)
        self.exam.add(
            "FAIL",
            "graph-cut",
            f"{count(cut)} without a gradient in a later step, although with one in the first: "
            f"{some(cut)}. A forward must compute the same each time that it is called.",
            parameters=cut,
            module=place.module,
            line=place.line,
        )

    def _report_sparse(self, error: RuntimeError, names: list[str]) -> None:
        """Report an optimizer that takes no sparse gradients."""
        self.exam.add(
            "FAIL",
            "optimizer",
            f"the optimizer refuses the sparse gradient of {some(names)}: {describe(error)}. Give "
            "it to torch.optim.SparseAdam or SGD, or build the embedding with sparse=False.",
            parameters=names,
            module=self.flow.diagnosis.forward.owner(names) if names else None,
        )

    def _is_stopped(self) -> bool:
        """Return whether a known stop keeps the loss as it is: that of `exp(p - p.detach())`."""
        flow, stops = self.flow, self.flow.stand_ins
        if any(f.code == "gradient-wrong" and f.line for f in self.exam.findings):
            return True  # its cause is told
        if not stops.has_stops and not flow.slopes.surrogates:
            return False
        with stops.held():
            shaking = Perturbation(self.subject, math.nan, flow.limits, flow.spread)
            return shaking.depends(self.subject.names)

    def _judge_still(self, step: "_Step") -> None:
        """Report an unchanged loss: a stale forward or a flat loss, if not too small a step.

        Weights of 16 bits round many steps away, however much the loss should have moved.
        """
        limits, spread = self.flow.limits, self.flow.spread
        size = max(abs(step.before), self.flow.scale)
        is_large = abs(step.descent) > 4 * limits.noise * size + spread
        if is_large and limits is not SIXTEEN_BIT:
            rounding = self.flow.loss_rounding.while_held(self.flow.stand_ins)
            is_large = abs(step.descent) > 4 * rounding
        if not is_large or limits is SIXTEEN_BIT:
            shaking = Perturbation(self.subject, step.before, limits, spread)
            if shaking.depends(self.subject.names):
                return
        if is_large and self._is_stopped():
            return
        if is_large:
            self.exam.add(
                "FAIL",
                "stale-forward",
                f"the loss is {step.before:.6g} before and after a step that changed the weights "
                f"and should have moved it by {step.descent:.2g}: the forward computes with copies "
                "of them. Keep nothing computed from weights.",
            )
        else:
            self.exam.add(
                "FAIL",
                "flat",
                f"the loss is {step.before:.6g} whatever the trained parameters are, and the "
                "gradient is rounding noise: this loss cannot train them on this probe (the mean "
                "square of a normalised output is constant, for one). Test with the loss you train "
                "with.",
            )


def _prepare(subject: Subject, samples: _Samples, *_: object) -> None:
    """Note what the optimizer is about to change, just before it makes its own tensors."""
    samples.take()
    subject.give_back()


def _largest(gradient: Tensor) -> int | None:
    """Return the flat index of the largest entry, by rows first: no copy; None if all are 0."""
    flat = real(gradient.to_dense()).reshape(-1)
    rows = flat[: flat.numel() // _ROW * _ROW].view(-1, _ROW)
    first = 0
    if len(rows) > 1:
        sizes = torch.maximum(rows.amax(1), -rows.amin(1))
        rest = flat[rows.numel() :].abs().amax() if flat.numel() % _ROW else sizes.new_zeros(())
        first = _ROW * (len(rows) if bool(rest > sizes.amax()) else int(sizes.argmax()))
        flat = flat[first : first + _ROW]
    place = int(flat.abs().argmax()) if flat.numel() else 0
    return None if flat.numel() == 0 or float(flat[place]) == 0 else first + place


def _entries(tensor: Tensor, first: int) -> Tensor:
    """Return copies of some entries, including the one at flat index `first`."""
    flat = real(tensor.detach().to_dense()).reshape(-1)
    return torch.cat([flat[first : first + 1], flat[:_SAMPLE]])
