"""The gradients of one training step, and the checks' findings on them so far."""

import math
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from gradient_check.checks.loss_rounding import LossRounding
from gradient_check.diagnosis.diagnosis import Diagnosis
from gradient_check.diagnosis.stand_ins import StandIns, functions_of
from gradient_check.findings.examination import Examination
from gradient_check.instruments.declared import DeclaredStops
from gradient_check.instruments.declared_slopes import DeclaredSlopes
from gradient_check.instruments.differences import Limits, scale_of
from gradient_check.instruments.directions import norm
from gradient_check.instruments.gradient_facts import GradientFacts
from gradient_check.instruments.graph import reached_leaves
from gradient_check.instruments.guard import Guard
from gradient_check.instruments.lifting import has_sixteen_bits
from gradient_check.instruments.subject import Subject


class GradientFlow:
    """The gradients of one training step; its state lasts from the forward to the last check.

    Attributes:
        declared: the caller's own stop-gradients.
        slopes: the caller's declarations of gradients that are no slopes.
        stand_ins: stops that account for gradients which are not the loss's slope.
        kinds: the custom functions that the forward uses.
        is_coarse: whether the module, checked in float32, passes through 16 bits of its own.
        can_lift: whether the module can run without these 16 bits, and is small.
        loss_rounding: the rounding of the loss.
        partly_zero: the parameters whose gradient is 0 in some entries.
        moving_zeros: the parameters whose such entries move the loss, by the first name of their
            portion.
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
        self.moving_zeros: dict[str, list[str]] = {}
        self._weights_norm = math.nan
        self.loss_rounding = LossRounding(subject, limits)

    @property
    def scale(self) -> float:
        """The size of the loss; if its terms cancel, about the size of the terms."""
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

    def observe(self, losses: Tensor) -> None:
        """Record a forward's losses, and the functions and leaves of their graph."""
        self.kinds = functions_of([losses])
        self.has_graph = losses.requires_grad
        autocasts = self.subject.options.precision.autocasts
        self.is_coarse = not autocasts and has_sixteen_bits(losses)
        self.loss = float(losses.detach().double().mean())
        self.reached = reached_leaves(losses)
        own = {id(p) for p in self.subject.replica.parameters()}
        self.guard.remember(t for i, t in self.reached.items() if i not in own)

    def measure(self) -> tuple[list[str], list[str]]:
        """Store norms, and grounds for later checks; return nonfinite and zero gradients."""
        facts: dict[str, GradientFacts] = {}
        for names in self.subject.held_first() if self.has_graph else ():
            found = self.subject.held.facts_of(names)
            if found is None:
                self.subject.hold(names)
                found = self.subject.held.facts_of(names)
            facts |= found or {}
        self.subject.give_back()
        self.gradient_norms = {name: each.norm for name, each in facts.items()}
        self.partly_zero |= {name for name, each in facts.items() if each.has_zeros}
        self._note_grounds(list(self.gradient_norms.values()))
        nonfinite = [name for name, each in facts.items() if not each.is_finite]
        return nonfinite, [name for name, each in facts.items() if each.is_empty]

    def _note_grounds(self, sizes: list[float]) -> None:
        if any(norm > 0 and math.isfinite(norm) for norm in sizes):
            self.exam.grounds.add("gradients")
        if all(math.isfinite(norm) for norm in sizes):
            self.exam.grounds.add("finite gradients")


def arrived_norms(parameters: Mapping[str, nn.Parameter]) -> dict[str, float]:
    """Return the norms of the dense gradients on parameters now, before any is judged."""
    found = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    return {name: float(grad.norm()) for name, grad in found.items() if not grad.is_sparse}
