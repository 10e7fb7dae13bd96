"""Step 10 for single entries: checks that one without gradient does not change the loss."""

from collections.abc import Collection

from cog_adapt.runner.gradients import differences
from cog_adapt.runner.gradients.examination import Numbers
from cog_adapt.runner.gradients.flow import GradientFlow
from cog_adapt.runner.gradients.noise import real
from cog_adapt.runner.gradients.padding import ignoring_padding
from cog_adapt.runner.gradients.report import some


class ZeroEntries:
    """Judges the entries of a flow's gradients that are exactly 0."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.subject = flow.subject
        self.exam = flow.exam
        self.limits = flow.limits
        self.diagnosis = flow.diagnosis

    def judge(self) -> Numbers:
        """Check that entries without gradient, in parameters with one, do not change the loss."""
        if self.limits is differences.SIXTEEN_BIT or self.exam.has("gradient-wrong"):
            return {}
        names = [n for n, norm in self.flow.gradient_norms.items() if norm > 0]
        moving = self._moving(names)
        if moving:
            with self.subject.elsewhere(1):
                moving = [n for n in moving if self._moves_without_gradient([n])]
        if moving:
            place = self.diagnosis.wrong(moving)
            self.exam.fail(
                "gradient-wrong",
                f"a part of the gradients of {some(moving)} is exactly 0 although the loss "
                "depends on those entries. Something cuts the graph for a part of a tensor.",
                moving,
                place.module,
                place.line,
            )
        return {"moving": len(moving)}

    def _moving(self, names: list[str]) -> list[str]:
        """Return the parameters whose zero entries change the loss, tested together first."""
        if not self._moves_without_gradient(names):
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
        noise = self.limits.noise * abs(self.flow.loss) + self.flow.spread
        return bool(views) and differences.depends_linearly(
            self.subject.forward, views, directions, noise
        )
