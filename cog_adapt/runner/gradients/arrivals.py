"""Steps 8 and 9: where backward's gradients arrived, and which are missing, zero or not finite."""

import math
from collections.abc import Collection

import torch

from cog_adapt.runner.gradients.copies import Copies
from cog_adapt.runner.gradients.examination import Numbers, describe
from cog_adapt.runner.gradients.flow import GradientFlow
from cog_adapt.runner.gradients.report import count, some
from cog_adapt.runner.gradients.shaking import Shaking
from cog_adapt.runner.gradients.strangers import judge_strangers


class GradientArrivals:
    """Judges the gradients that a flow has left on the replica's parameters."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.guard = flow.guard
        self.exam = flow.exam
        self.diagnosis = flow.diagnosis
        self.copies = Copies(flow.diagnosis)

    def judge_backward(self) -> Numbers:
        """Errors of backward, gradients that landed elsewhere, missing, zero or not finite."""
        error = self.flow.backward_error
        if error is not None:
            place = self.diagnosis.backward_raised(error)
            self.exam.fail(
                "backward",
                f"backward raised {describe(error)}. {remedy(str(error))}",
                module=place.module,
                line=place.line,
            )
            return {}
        frozen = [n for n, p in self.subject.parameters.items() if not p.requires_grad]
        if frozen:
            self._report_frozen(frozen)
        leaked = self.guard.leaked_gradients()
        if leaked:
            self._report_leak(leaked)
        gradients = {n: p.grad for n, p in self.subject.parameters.items()}
        present = {n: g.to_dense() for n, g in gradients.items() if g is not None}
        norms = torch._foreach_norm(list(present.values())) if present else []
        self.flow.gradient_norms = dict(zip(present, map(float, norms), strict=True))
        if any(norm > 0 and math.isfinite(norm) for norm in self.flow.gradient_norms.values()):
            self.exam.grounds.add("gradients")
        if all(map(math.isfinite, self.flow.gradient_norms.values())):
            self.exam.grounds.add("finite gradients")
        judge_strangers(self.flow)
        judged = [n for n in self.subject.names if n not in frozen and n not in self.flow.unused]
        self._judge_missing([n for n in judged if n not in present], leaked)
        nonfinite = [n for n, norm in self.flow.gradient_norms.items() if not math.isfinite(norm)]
        nonfinite = [n for n in nonfinite if not bool(torch.isfinite(present[n]).all())]
        self._judge_nonfinite(nonfinite)
        zero = [n for n, norm in self.flow.gradient_norms.items() if norm == 0]
        self._judge_zero([n for n in zero if n in judged and not bool(present[n].any())])
        return {"missing": len(gradients) - len(present), "zero": len(zero)}

    def _report_leak(self, names: Collection[str]) -> None:
        self.guard.put_back_gradients()
        place = self.copies.uses_original()
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
        place = self.diagnosis.freezes(names)
        self.exam.fail(
            "graph-cut",
            f"the forward froze {count(names)}: {some(names)}. It must not call "
            "requires_grad_(False) on what is trained.",
            names,
            place.module,
            place.line,
        )

    def _judge_missing(self, missing: list[str], leaked: Collection[str]) -> None:
        if not missing:
            return
        dependent = self._shaking().dependent(missing)
        silent = [n for n in missing if n not in dependent]
        if dependent:
            self._report_cut(dependent)
        hidden = [n for n in silent if self.diagnosis.is_cut(n)]
        if hidden:
            self._report_cut(hidden)
        silent = [n for n in silent if n not in hidden]
        if silent and not leaked:
            self._report_unused(silent)

    def _report_cut(self, names: list[str]) -> None:
        own = self.subject.parameters
        all_missing = not self.flow.gradient_norms
        in_graph = any(id(own[name]) in self.flow.reached for name in names)
        code, what = "graph-cut", "without a gradient although the loss depends on it"
        if in_graph:
            code = "grad-none"
            what = "to which backward gives nothing, although in the graph"
        elif all_missing and self.flow.has_graph:
            code, what = "no-gradient", "without a gradient: the loss's graph begins elsewhere"
        place = self.diagnosis.missing(names)
        self.exam.fail(
            code,
            f"{count(names)} {what}: {some(names)}. Keep the values in torch, with their "
            "graph, from the parameter to the loss.",
            names,
            place.module,
            place.line,
        )

    def _report_unused(self, names: list[str]) -> None:
        place = self.copies.uses_original()
        if place.line is not None:
            self.exam.fail(
                "leak-to-base",
                f"{count(names)} not used by the replica, which computes with the "
                f"original's: {some(names)}. Something inside holds a reference to the original "
                "(a closure, a lambda, a hook); take the module from `self` instead.",
                names,
                place.module,
                place.line,
            )
            return
        place = self.copies.cached(names)
        if place.line is not None:
            self.exam.fail(
                "stale-forward",
                f"only the first forward uses {some(names)}: later ones, the training's too, take "
                "a value that it kept. Keep nothing computed from weights between calls.",
                names,
                place.module,
                place.line,
            )
            return
        copy, place = self.copies.kept(names)
        self.exam.fail(
            "unused",
            f"{count(names)} without effect on the loss, even when moved by half the "
            f"spread: {some(names)}.{copy} Train fewer (`trainable`), or name them in `unused`.",
            names,
            self.diagnosis.owner(names),
            place.line,
        )

    def _judge_nonfinite(self, names: list[str]) -> None:
        if names and math.isfinite(self.flow.loss):
            place = self.diagnosis.spoilt(names, nonfinite=True)
            self.exam.fail(
                "grad-nonfinite",
                f"{count(names, 'gradient')} with NaN or infinite values: {some(names)}. Keep "
                "roots, logarithms and divisions away from zero (add an epsilon inside).",
                names,
                place.module,
                place.line,
            )

    def _judge_zero(self, names: list[str]) -> None:
        if not names:
            return
        shaking = self._shaking()
        dependent = shaking.dependent(names)
        gated = [n for n in dependent if self.diagnosis.is_gated(n) and shaking.is_asleep(n)]
        dependent = [n for n in dependent if n not in gated]
        quiet = [n for n in names if n not in dependent]
        dependent += [n for n in quiet if self.diagnosis.is_stepped(n)]
        if dependent:
            place = self.diagnosis.spoilt(dependent, nonfinite=False)
            self.exam.fail(
                "grad-zero",
                f"{count(dependent, 'gradient')} exactly 0 although the loss depends on the "
                f"values: {some(dependent)}. Look for rounding, a sign, a saturated function "
                "or a factor 0.",
                dependent,
                place.module,
                place.line,
            )
        dead = [n for n in names if n not in dependent]
        if dead:
            place = self.diagnosis.spoilt(dead, nonfinite=False)
            self.exam.warn(
                "dead",
                f"{count(dead, 'gradient')} exactly 0, and the loss does not notice the "
                f"values on this probe: {some(dead)}.",
                dead,
                place.module or self.diagnosis.owner(dead),
                place.line,
            )

    def _shaking(self) -> Shaking:
        return Shaking(self.subject, self.flow.loss, self.flow.limits, self.flow.spread)


def remedy(text: str) -> str:
    """What to do about an error of backward."""
    if "number of gradients" in text or "invalid gradient" in text:
        return "Return one gradient for each input of forward, of its shape, or None."
    if "second time" in text:
        return "Leave backward to the training step, and keep no graph for a second forward."
    return "Tensors that the graph saved must not be written to."
