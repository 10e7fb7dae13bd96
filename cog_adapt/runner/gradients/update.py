"""Step 11: takes a step of the real optimizer, which the next forward must see."""

from typing import Any

import torch
from torch import Tensor

from cog_adapt.runner.gradients.arrivals import remedy
from cog_adapt.runner.gradients.examination import Numbers, describe
from cog_adapt.runner.gradients.noise import real
from cog_adapt.runner.gradients.operation import Operation
from cog_adapt.runner.gradients.report import count, some
from cog_adapt.runner.gradients.shaking import Shaking
from cog_adapt.runner.gradients.traces import keeper_of

_SAMPLE = 65_536


class Update:
    """Takes optimizer steps, and checks what they change."""

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.subject = operation.subject
        self.exam = operation.exam
        self.flow = operation.flow

    def take_step(self) -> Numbers:
        """Check that a step of the real optimizer changes every trained parameter, and the loss."""
        subject, exam = self.subject, self.exam
        if not self._optimizer_fits():
            return {}
        places = {n: _largest(p.grad) for n, p in subject.parameters.items()}
        samples = {n: _entries(p, places[n]) for n, p in subject.parameters.items()}
        subject.put_back_buffers()
        try:
            result = subject.step(subject.probe, subject.seed)
        except RuntimeError as error:
            report = self._report_sparse if "sparse grad" in str(error) else None
            (report or self._report_second_backward)(error)
            return {}
        exam.grounds.add("stepped")
        own = subject.parameters
        moved = {n: _entries(own[n], places[n]) - samples[n] for n in samples}
        norms = self.flow.gradient_norms
        lost = [n for n in norms if norms[n] > 0 and not bool(moved[n].any())]
        if lost and not exam.has("lr-zero"):
            exam.fail(
                "step-lost",
                f"a step left {count(lost)} bit for bit as before: {some(lost)}. The "
                "update is smaller than their dtype resolves, or the optimizer leaves them out.",
                lost,
            )
        following = subject.forward()
        descent = sum(
            float((moved[n] * _entries(p.grad, places[n])).sum())
            for n, p in own.items()
            if p.grad is not None and norms.get(n, 0.0) > 0
        )
        if following == self.flow.loss and len(lost) < len(norms):
            self._judge_still(following, descent)
        if descent > 0:
            exam.warn("ascent", f"the step raises the loss by about {descent:.3g}.")
        return {"loss before": result.loss, "loss after": following, "predicted": descent}

    def _report_sparse(self, error: RuntimeError) -> None:
        """Report an optimizer that takes no sparse gradients."""
        own = self.subject.parameters
        names = [n for n, p in own.items() if p.grad is not None and p.grad.is_sparse]
        self.exam.fail(
            "optimizer",
            f"the optimizer refuses the sparse gradient of {some(names)}: {describe(error)}. Give "
            "it to torch.optim.SparseAdam or SGD, or build the embedding with sparse=False.",
            names,
            self.flow.diagnosis.forward.owner(names) if names else None,
        )

    def _report_second_backward(self, error: RuntimeError) -> None:
        """Report an error of the second backward: something of the first was kept."""
        place = self.flow.diagnosis.backward_raised(error)
        keeper = keeper_of(self.subject.replica)
        self.exam.fail(
            "backward",
            f"the backward of a second step raised {describe(error)}. {remedy(str(error))}"
            + (f" {keeper} keeps a graph: detach it." if keeper else ""),
            module=place.module or keeper,
            line=place.line,
        )

    def _judge_still(self, loss: float, descent: float) -> None:
        """Report an unchanged loss: a stale forward or a flat loss, if not too small a step."""
        limits, spread = self.flow.limits, self.flow.spread
        if abs(descent) > 4 * limits.noise * abs(loss) + spread:
            self.exam.fail(
                "stale-forward",
                f"the loss is {loss:.6g} before and after a step that changed the weights and "
                f"should have moved it by {descent:.2g}: the forward computes with copies of "
                "them. Keep nothing computed from weights.",
            )
            return
        shaking = Shaking(self.subject, loss, limits, spread)
        if not shaking.dependent(self.subject.names):
            self.exam.fail(
                "flat",
                f"the loss is {loss:.6g} whatever the trained parameters are, and the gradient "
                "is rounding noise: this loss cannot train them on this probe (the mean square "
                "of a normalised output is constant, for one). Test with the loss you train with.",
            )

    def _optimizer_fits(self) -> bool:
        """Return whether the optimizer holds each trained parameter and nothing else."""
        groups = self.subject.step.optimizer.param_groups
        held = [id(p) for group in groups for p in group["params"]]
        own = {n: id(p) for n, p in self.subject.parameters.items()}
        left_out = [n for n, identity in own.items() if identity not in held]
        foreign = len(set(held) - set(own.values()))
        if left_out or foreign:
            self.exam.fail(
                "not-optimized",
                f"the optimizer leaves out {len(left_out)} trained parameters ({some(left_out)}) "
                f"and holds {foreign} that are not the replica's. Build it on the parameters that "
                "it is given.",
                left_out,
            )
            return False
        self._check_rates(groups)
        return True

    def _check_rates(self, groups: list[dict[str, Any]]) -> None:
        still = [group for group in groups if float(group["lr"]) == 0]
        if still:
            warms_up = all(float(group.get("initial_lr", 0)) > 0 for group in still)
            note = self.exam.warn if warms_up else self.exam.fail
            note(
                "lr-zero",
                f"the learning rate is 0 in {len(still)} of {len(groups)} groups"
                + ("; a schedule may raise it." if warms_up else ". Set one above 0."),
            )


def _largest(gradient: Tensor | None) -> int:
    """Return the flat index of the largest entry."""
    return int(real(gradient.to_dense()).abs().argmax()) if gradient is not None else 0


def _entries(tensor: Tensor, first: int) -> Tensor:
    """Return copies of some entries, including the one at flat index `first`."""
    flat = real(tensor.detach().to_dense()).reshape(-1)
    return torch.cat([flat[first : first + 1], flat[:_SAMPLE]])
