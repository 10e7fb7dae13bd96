"""Step 10 for single entries: checks that one without gradient does not change the loss."""

from collections.abc import Collection

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.loss_rounding import CANCELLED
from gradient_check.findings.examination import Numbers
from gradient_check.findings.report import some
from gradient_check.instruments import differences
from gradient_check.instruments.noise import real
from gradient_check.instruments.padding import ignoring_padding


class ZeroEntries:
    """Judges the entries of a flow's gradients that are exactly 0."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.exam = flow.exam
        self.limits = flow.limits
        self.diagnosis = flow.diagnosis
        self._found: dict[str, list[str]] = {}  # by a portion's first name

    def look(self, portion: list[str]) -> None:
        """Look, once, for such entries in a portion; of a large module, best while it is held."""
        if self.limits is not differences.SIXTEEN_BIT and portion[0] not in self._found:
            norms = self.flow.gradient_norms
            names = [n for n in norms if norms[n] > 0 and n in self.flow.partly_zero]
            names = [name for name in names if not self.flow.slopes.is_excused(name)]
            self._found[portion[0]] = self._moving(portion, names)

    def judge(self) -> Numbers:
        """Check that entries without gradient, in parameters with one, do not change the loss."""
        if self.limits is differences.SIXTEEN_BIT:
            if "rounding" not in self.exam.grounds:  # which compares entries with float32's
                self.exam.leave_out("rounding hides what single entries change")
            return {}
        if self.exam.has("gradient-wrong"):
            return {}
        for portion in self.subject.held_first():
            self.look(portion)
        moving = [name for found in self._found.values() for name in found]
        if moving:
            with self.subject.elsewhere(1, moving):
                moving = [n for n in moving if self._moves_without_gradient([n])]
        if moving:
            place = self.diagnosis.wrong(moving)
            self.exam.add(
                "FAIL",
                "gradient-wrong",
                f"a part of the gradients of {some(moving)} is exactly 0 although the loss "
                "depends on those entries. Something cuts the graph for a part of a tensor.",
                parameters=moving,
                module=place.module,
                line=place.line,
            )
        return {"moving": len(moving)}

    def _moving(self, portion: list[str], names: list[str]) -> list[str]:
        """Return the parameters whose zero entries change the loss, tested together first."""
        names = [name for name in names if name in set(portion)]
        if names:
            self.subject.hold(portion)
        if not names or not self._moves_without_gradient(names):
            return []
        return [n for n in names if self._moves_without_gradient([n])]

    def _moves_without_gradient(self, names: Collection[str]) -> bool:
        own = self.subject.parameters
        tensors = [real(own[n].detach()) for n in names]
        gradients = [
            real(ignoring_padding(self.subject.replica, n, g))
            for n in names
            if (g := own[n].grad) is not None
        ]
        views, directions = differences.zero_entries(tensors, gradients)
        noise = self.limits.noise * self.flow.scale + self.flow.spread
        given = (self.subject.forward, views, directions)
        with self.flow.stand_ins.held():
            if not views or not differences.depends_linearly(*given, noise):
                return False
        rounding = self.flow.loss_rounding.while_held(self.flow.stand_ins)  # takes forwards
        if rounding <= CANCELLED * noise:
            return True
        with self.flow.stand_ins.held():
            return differences.depends_linearly(*given, rounding)
