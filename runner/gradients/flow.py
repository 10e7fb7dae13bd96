"""Steps 7 to 9: a training forward and its backward; gradients that are missing or spoilt."""

import math
from collections.abc import Collection

import torch
from torch import Tensor

from runner.errors import ModeError
from runner.gradients.diagnosis import Diagnosis
from runner.gradients.differences import Limits
from runner.gradients.examination import Examination, Numbers, describe
from runner.gradients.graph import reached_leaves
from runner.gradients.guard import Guard
from runner.gradients.probe_loss import LossShapeError
from runner.gradients.report import some
from runner.gradients.shaking import Shaking
from runner.gradients.subject import Subject


class GradientFlow:
    """The gradients of one training step, taken and judged."""

    def __init__(
        self, subject: Subject, guard: Guard, exam: Examination, limits: Limits, unused: list[str]
    ) -> None:
        self.subject = subject
        self.guard = guard
        self.exam = exam
        self.limits = limits
        self.unused = unused
        self.diagnosis = Diagnosis(subject, guard)
        self.loss = math.nan
        self.spread = 0.0
        self.has_graph = False
        self.reached: set[int] = set()
        self.backward_error: Exception | None = None
        self.gradient_norms: dict[str, float] = {}

    def run_forward(self) -> Numbers:
        """A forward and backward as a step takes them; judges the forward."""
        subject, exam = self.subject, self.exam
        try:
            self.loss = subject.gradients(self._observe)
        except LossShapeError as error:
            place = self.diagnosis.escape()
            exam.fail(
                "loss-shape",
                f"{error}. Return a float tensor: a scalar, or one loss for each example.",
                module=place.module,
                line=place.line,
            )
            return {}
        except Exception as error:  # noqa: BLE001 - the code under test may raise anything
            self._judge_error(error)
        self._judge_tampering()
        if subject.loss.finished:
            self._judge_loss()
        if subject.loss.finished and math.isfinite(self.loss):
            exam.grounds.add("loss")
        return {"loss": self.loss}

    def _observe(self, losses: Tensor) -> None:
        self.has_graph = losses.requires_grad
        self.loss = float(losses.detach().double().mean())
        self.reached = reached_leaves(losses)

    def _judge_error(self, error: Exception) -> None:
        if self.subject.loss.finished:
            if self.has_graph:
                self.backward_error = error
            return
        if isinstance(error, ModeError):  # the forward before this one froze every parameter
            return
        place = self.diagnosis.raised(error)
        hint = ""
        if "nference tensor" in str(error):
            hint = (
                " A tensor made by an inference is kept somewhere and used in training"
                f"{self.diagnosis.kept_tensors()}: keep none, or serve under no_grad."
            )
        self.exam.fail(
            "train-forward",
            f"the training forward raised {describe(error)}.{hint}",
            module=place.module,
            line=place.line,
        )

    def _judge_tampering(self) -> None:
        for name, text in self.subject.loss.tampering.items():
            code = "thread-mode" if name in ("grad mode", "inference mode", "autocast") else None
            place = self.diagnosis.tampering(name)
            self.exam.fail(
                code or "flags-changed",
                f"the forward changed what it must leave alone: {text}. Use a context manager "
                "that ends inside the forward.",
                module=place.module,
                line=place.line,
            )

    def _judge_loss(self) -> None:
        if not self.subject.loss.shape_fits:
            self.exam.fail(
                "loss-shape",
                f"the losses have shape {self.subject.loss.shape}; allowed: () or one loss for "
                "each example. Reduce over everything but the examples.",
            )
        if not math.isfinite(self.loss):
            place = self.diagnosis.nonfinite_value()
            self.exam.fail(
                "loss-nonfinite",
                f"the loss is {self.loss} before any update. Look for a division, logarithm or "
                "root of zero, or an overflow.",
                module=place.module,
                line=place.line,
            )

    def judge_backward(self) -> Numbers:
        """Errors of backward, gradients that landed elsewhere, missing, zero or not finite."""
        error = self.backward_error
        if error is not None:
            place = self.diagnosis.backward_raised(error)
            self.exam.fail(
                "backward",
                f"backward raised {describe(error)}. Tensors that the graph saved must not be "
                "written to, and no graph may be kept for a second forward.",
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
        self.gradient_norms = dict(zip(present, map(float, norms), strict=True))
        if any(norm > 0 and math.isfinite(norm) for norm in self.gradient_norms.values()):
            self.exam.grounds.add("gradients")
        if all(map(math.isfinite, self.gradient_norms.values())):
            self.exam.grounds.add("finite gradients")
        missing = [n for n in self.subject.names if n not in present and n not in frozen]
        self._judge_missing(missing, leaked)
        nonfinite = [n for n, norm in self.gradient_norms.items() if not math.isfinite(norm)]
        nonfinite = [n for n in nonfinite if not bool(torch.isfinite(present[n]).all())]
        self._judge_nonfinite(nonfinite)
        zero = [n for n, norm in self.gradient_norms.items() if norm == 0]
        self._judge_zero([n for n in zero if not bool(present[n].any())])
        return {"missing": len(gradients) - len(present), "zero": len(zero)}

    def _report_leak(self, names: Collection[str]) -> None:
        self.guard.put_back_gradients()
        place = self.diagnosis.uses_original()
        self.exam.fail(
            "leak-to-base",
            f"{len(names)} gradients landed in the original module instead of its replica: "
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
            f"the forward froze {len(names)} parameters: {some(names)}. It must not call "
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
        undeclared = [n for n in silent if n not in self.unused]
        hidden = [n for n in undeclared if self.diagnosis.is_cut(n)]
        if hidden:
            self._report_cut(hidden)
        undeclared = [n for n in undeclared if n not in hidden]
        if undeclared and not leaked:
            self._report_unused(undeclared)

    def _report_cut(self, names: list[str]) -> None:
        own = self.subject.parameters
        all_missing = not self.gradient_norms
        in_graph = any(id(own[name]) in self.reached for name in names)
        code, what = "graph-cut", "get no gradient although the loss depends on them"
        if in_graph:
            code = "grad-none"
            what = "are in the graph, but backward gives them nothing"
        elif all_missing and self.has_graph:
            code, what = "no-gradient", "get no gradient: the loss's graph does not begin at them"
        place = self.diagnosis.missing(names)
        self.exam.fail(
            code,
            f"{len(names)} parameters {what}: {some(names)}. Keep the values in torch, with their "
            "graph, from the parameter to the loss.",
            names,
            place.module,
            place.line,
        )

    def _report_unused(self, names: list[str]) -> None:
        place = self.diagnosis.uses_original()
        if place.line is not None:
            self.exam.fail(
                "leak-to-base",
                f"{len(names)} parameters are not used by the replica, which computes with the "
                f"original's: {some(names)}. Something inside holds a reference to the original "
                "(a closure, a lambda, a hook); take the module from `self` instead.",
                names,
                place.module,
                place.line,
            )
            return
        copy = self.diagnosis.stale_copy(names)
        self.exam.fail(
            "unused",
            f"{len(names)} parameters do not enter the loss, even when moved by half their "
            f"spread: {some(names)}.{copy} Train fewer (`trainable`), or name them in `unused`.",
            names,
            self.diagnosis.owner(names),
        )

    def _judge_nonfinite(self, names: list[str]) -> None:
        if names and math.isfinite(self.loss):
            place = self.diagnosis.spoilt(names, nonfinite=True)
            self.exam.fail(
                "grad-nonfinite",
                f"{len(names)} gradients hold NaN or infinite values: {some(names)}. Keep roots, "
                "logarithms and divisions away from zero (add an epsilon inside).",
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
                f"{len(dependent)} gradients are exactly 0 although the loss depends on the "
                f"parameters: {some(dependent)}. Look for rounding, a sign, a saturated function "
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
                f"{len(dead)} gradients are exactly 0, and the loss does not notice the "
                f"parameters on this probe: {some(dead)}.",
                dead,
                place.module or self.diagnosis.owner(dead),
                place.line,
            )

    def _shaking(self) -> Shaking:
        return Shaking(self.subject, self.loss, self.limits, self.spread)
