"""Step 8: checks that backward ran, and that its gradients arrived at the trained parameters."""

import math
from collections.abc import Collection

import torch
from torch import Tensor

from cog_adapt.runner.gradients.copies import Copies
from cog_adapt.runner.gradients.examination import Numbers, describe
from cog_adapt.runner.gradients.flow import GradientFlow
from cog_adapt.runner.gradients.missing_gradients import MissingGradients
from cog_adapt.runner.gradients.report import count, some
from cog_adapt.runner.gradients.strangers import judge_strangers
from cog_adapt.runner.gradients.unused_parameters import OTHER_MODULE
from cog_adapt.runner.gradients.zero_gradients import ZeroGradients


class GradientArrivals:
    """Judges the gradients that a flow has left on the replica's parameters."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.guard = flow.guard
        self.exam = flow.exam
        self.diagnosis = flow.diagnosis

    def judge_backward(self) -> Numbers:
        """Report errors of backward, and gradients misplaced, missing, zero or not finite."""
        if self.flow.backward_error is not None:
            self._report_error(self.flow.backward_error)
            return {}
        frozen = [n for n, p in self.subject.parameters.items() if not p.requires_grad]
        if frozen:
            self._report_frozen(frozen)
        leaked = self.guard.leaked_gradients()
        if leaked:
            self._report_leak(leaked)
        gradients = self._measure()
        judge_strangers(self.flow)
        judged = [n for n in self.subject.names if n not in frozen and n not in self.flow.unused]
        missing = [name for name in judged if name not in gradients]
        MissingGradients(self.flow).judge(missing, leaked=bool(leaked))
        self._judge_nonfinite(gradients)
        zero = [name for name, norm in self.flow.gradient_norms.items() if norm == 0]
        ZeroGradients(self.flow).judge([n for n in zero if n in judged and not gradients[n].any()])
        return {"missing": len(self.subject.parameters) - len(gradients), "zero": len(zero)}

    def _measure(self) -> dict[str, Tensor]:
        """Return the gradients that exist; note their norms, and the grounds for later checks."""
        found = {name: p.grad for name, p in self.subject.parameters.items()}
        gradients = {name: g.to_dense() for name, g in found.items() if g is not None}
        norms = torch._foreach_norm(list(gradients.values())) if gradients else []
        self.flow.gradient_norms = dict(zip(gradients, map(float, norms), strict=True))
        sizes = self.flow.gradient_norms.values()
        if any(norm > 0 and math.isfinite(norm) for norm in sizes):
            self.exam.grounds.add("gradients")
        if all(math.isfinite(norm) for norm in sizes):
            self.exam.grounds.add("finite gradients")
        return gradients

    def _report_error(self, error: Exception) -> None:
        place = self.diagnosis.backward_raised(error)
        self.exam.fail(
            "backward",
            f"backward raised {describe(error)}. {remedy(str(error))}",
            module=place.module,
            line=place.line,
        )

    def _report_leak(self, names: Collection[str]) -> None:
        self.guard.put_back_gradients()
        place = self.diagnosis.forward.other_module()
        self.guard.put_back_gradients()
        if place.line is not None:
            self.exam.fail("leak-to-base", OTHER_MODULE, names, place.module, place.line)
            return
        place = Copies(self.diagnosis).uses_original()
        self.exam.fail(
            "leak-to-base",
            f"{count(names, 'gradient')} landed in the original module instead of its replica: "
            f"{some(tuple(names))}. Something inside holds a reference to the original (a "
            "closure, a lambda, a hook); take the module from `self` instead.",
            names,
            place.module,
            place.line,
        )

    def _report_frozen(self, names: list[str]) -> None:
        place = self.diagnosis.forward.freezes(names)
        self.exam.fail(
            "graph-cut",
            f"the forward froze {count(names)}: {some(names)}. It must not call "
            "requires_grad_(False) on what is trained.",
            names,
            place.module,
            place.line,
        )

    def _judge_nonfinite(self, gradients: dict[str, Tensor]) -> None:
        """Report values that are not finite; a norm may overflow although every value is finite."""
        norms = self.flow.gradient_norms
        suspects = [name for name, norm in norms.items() if not math.isfinite(norm)]
        names = [name for name in suspects if not bool(torch.isfinite(gradients[name]).all())]
        if not names or not math.isfinite(self.flow.loss):
            return
        place = self.diagnosis.spoilt(names, nonfinite=True)
        self.exam.fail(
            "grad-nonfinite",
            f"{count(names, 'gradient')} with NaN or infinite values: {some(names)}. Keep "
            "roots, logarithms and divisions away from zero (add an epsilon inside).",
            names,
            place.module,
            place.line,
        )


def remedy(text: str) -> str:
    """Return the advice for an error of backward."""
    if "number of gradients" in text or "invalid gradient" in text:
        return "Return one gradient for each input of forward, of its shape, or None."
    if "second time" in text:
        return "Leave backward to the training step, and keep no graph for a second forward."
    return "Tensors that the graph saved must not be written to."
