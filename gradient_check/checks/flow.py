"""Step 7: runs a training forward and its backward as a step does, and judges the forward."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from gradient_check.checks.loss_rounding import LossRounding
from gradient_check.checks.single_rows import warning_of_single_rows
from gradient_check.diagnosis.diagnosis import Diagnosis
from gradient_check.diagnosis.kept_values import maker_of_inference_tensor
from gradient_check.diagnosis.nonfinite_values import nonfinite_place
from gradient_check.diagnosis.stand_ins import StandIns, functions_of
from gradient_check.findings.examination import Examination, Numbers, attempted, describe
from gradient_check.findings.report import Place
from gradient_check.instruments.declared import DeclaredStops
from gradient_check.instruments.declared_slopes import DeclaredSlopes
from gradient_check.instruments.differences import Limits, scale_of
from gradient_check.instruments.directions import norm
from gradient_check.instruments.graph import reached_leaves
from gradient_check.instruments.guard import Guard
from gradient_check.instruments.lifting import has_sixteen_bits
from gradient_check.instruments.probe_loss import LossShapeError
from gradient_check.instruments.sources import is_in_library
from gradient_check.instruments.subject import Subject
from gradient_check.phases.errors import ModeError


class GradientFlow:
    """Takes the gradients of one training step, and judges the forward behind them.

    Attributes:
        declared: the caller's own stop-gradients.
        slopes: the caller's declarations of gradients that are no slopes.
        stand_ins: stops that account for gradients which are not the loss's slope.
        kinds: the custom functions that the forward uses.
        is_coarse: whether the module, checked in float32, passes through 16 bits of its own.
        can_lift: whether it can be run without these, and is small.
        loss_rounding: of the loss.
        partly_zero: the parameters some of whose gradient's entries are 0.
    """

    def __init__(
        self, subject: Subject, guard: Guard, exam: Examination, limits: Limits, unused: list[str]
    ) -> None:
        self.subject = subject
        self.guard = guard
        self.exam = exam
        self.limits = limits
        self.unused = unused
        self.declared = DeclaredStops()
        self.slopes = DeclaredSlopes()
        self.stand_ins = StandIns(subject)
        self.diagnosis = Diagnosis(subject, guard)
        self.kinds: list[Any] = []
        self.is_coarse = self.can_lift = False
        self.loss = math.nan
        self.spread = 0.0
        self.forward_seconds = 0.0
        self.has_graph = False
        self.reached: dict[int, Tensor] = {}
        self.backward_error: Exception | None = None
        self.gradient_norms: dict[str, float] = {}
        self.partly_zero: set[str] = set()
        self._weights_norm = math.nan
        self.loss_rounding = LossRounding(subject, limits)

    @property
    def scale(self) -> float:
        """The size of the loss, or about that of its terms where these cancel each other."""
        own = self.subject.parameters
        norms = self.gradient_norms or arrived_norms(own)
        gradient = math.hypot(*norms.values())
        if not 0 < gradient < math.inf:
            return abs(self.loss)
        weights_norm = self._weights_norm
        if math.isnan(weights_norm):
            weights_norm = norm([own[name].detach() for name in norms])
        if self.gradient_norms:
            self._weights_norm = weights_norm
        return scale_of(self.loss, gradient * weights_norm)

    def run_forward(self) -> Numbers:
        """Run a forward and a backward as a step does; judge the forward."""
        subject, exam = self.subject, self.exam
        try:
            with (
                subject.held.noting(subject.step.scaler.is_enabled()),
                warning_of_single_rows(exam, self.guard.module, subject.replica),
            ):
                self.loss = subject.gradients(self.observe)
        except LossShapeError as error:
            place = self.diagnosis.forward.escape()
            exam.add(
                "FAIL",
                "loss-shape",
                f"{error}. Return a float tensor: a scalar, or one loss for each example.",
                module=place.module,
                line=place.line,
            )
            return {}
        except Exception as error:  # noqa: BLE001 - the code under test may raise anything
            finished = subject.loss.finished  # a diagnosis runs other forwards
            self._judge_error(error)
        else:
            finished = subject.loss.finished
        self._judge_tampering()
        if finished:
            _judge_loss(self)
        if finished and math.isfinite(self.loss):
            exam.grounds.add("loss")
            self._find_declared()
        return {"loss": self.loss}

    def observe(self, losses: Tensor) -> None:
        """Note a forward's losses, the functions of their graph and its leaves."""
        self.kinds = functions_of([losses])
        self.has_graph = losses.requires_grad
        autocasts = self.subject.options.precision.autocasts
        self.is_coarse = not autocasts and has_sixteen_bits(losses)
        self.loss = float(losses.detach().double().mean())
        self.reached = reached_leaves(losses)
        own = {id(p) for p in self.subject.replica.parameters()}
        self.guard.remember(t for i, t in self.reached.items() if i not in own)

    def _find_declared(self) -> None:
        """Find where declared blocks begin; they are held in all comparisons."""
        find = self.slopes.find
        attempted(lambda: find(self.subject, self.diagnosis.names, self.kinds), None)
        self.stand_ins = StandIns(self.subject, sites=self.slopes.sites)

    def _judge_error(self, error: Exception) -> None:
        if self.subject.loss.finished:
            if self.has_graph:
                self.backward_error = error
            return
        if isinstance(error, ModeError):  # the forward before this one froze every parameter
            return
        hint, place = "", self.diagnosis.forward.raised(error)
        if "nference tensor" in str(error):
            hint, place = self._explain_inference_tensor(place)
        self.exam.add(
            "FAIL",
            "train-forward",
            f"the training forward raised {describe(error)}.{hint}",
            module=place.module,
            line=place.line,
        )

    def _explain_inference_tensor(self, user: Place) -> tuple[str, Place]:
        """Return where an inference tensor comes from, as a sentence and as a place."""
        place = self.diagnosis.forward.inference_mode()
        if place.line:
            return (
                " The forward itself runs a part in inference mode, whose results no gradient may "
                "pass. Take that mode out; for a part that is not trained use no_grad.",
                place,
            )
        hint = (
            " A tensor made by an inference is kept somewhere and used in training"
            f"{self.diagnosis.forward.kept_tensors()}: keep none, or serve under no_grad "
            "(serve_mode, or SERVE_MODE in the environment)."
        )
        maker = maker_of_inference_tensor(self.diagnosis.forward)
        return (f"{hint} The named call makes it.", maker) if maker.line else (hint, user)

    def _judge_tampering(self) -> None:
        for name, text in self.subject.loss.tampering.items():
            code = "thread-mode" if name in ("grad mode", "inference mode", "autocast") else None
            place = self.diagnosis.forward.tampering(name)
            is_librarys = name == "the random seed" and is_in_library(place.line)
            self.exam.add(
                "WARN" if is_librarys else "FAIL",
                code or "flags-changed",
                f"the forward changed what it must leave alone: {text}. Use a context manager "
                "that ends inside the forward.",
                module=place.module,
                line=place.line,
            )


def _judge_loss(flow: GradientFlow) -> None:
    """Judge whether the losses have an allowed shape and are finite; name what made them else."""
    subject, exam, forward = flow.subject, flow.exam, flow.diagnosis.forward
    if not subject.loss.shape_fits:
        shape = subject.loss.shape  # a diagnosis runs other forwards
        place = forward.losses()
        exam.add(
            "FAIL",
            "loss-shape",
            f"the losses have shape {shape}; allowed: () or one loss for each example. Reduce "
            "over everything but the examples.",
            module=place.module,
            line=place.line,
        )
    if not math.isfinite(flow.loss):
        place = nonfinite_place(forward)
        exam.add(
            "FAIL",
            "loss-nonfinite",
            f"the loss is {flow.loss} before any update. Look for a division, logarithm or "
            "root of zero, or an overflow.",
            module=place.module,
            line=place.line,
        )


def arrived_norms(parameters: Mapping[str, nn.Parameter]) -> dict[str, float]:
    """Return the norms of the dense gradients that lie on parameters now, before any is judged."""
    found = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    return {name: float(grad.norm()) for name, grad in found.items() if not grad.is_sparse}
