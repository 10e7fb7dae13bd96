"""Step 9 for gradients that are exactly 0: lost on the way, or dead on this probe."""

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.shaking import Perturbation
from gradient_check.findings.report import Place, count, some


class ZeroGradients:
    """Reports why gradients of a flow are zero."""

    def __init__(self, flow: GradientFlow) -> None:
        self.flow = flow
        self.exam = flow.exam
        self.diagnosis = flow.diagnosis

    def judge(self, names: list[str]) -> None:
        """Fail those of `names` that the loss depends on, and warn of the others."""
        if not names:
            return
        lost = self._lost(names)
        dead = [name for name in names if name not in lost]
        if lost:
            self._report_lost(lost)
        if dead:
            self._report_dead(dead)

    def _lost(self, names: list[str]) -> list[str]:
        """Return the names that the loss depends on, or whose gradient ends at a step function.

        A gate that this probe shuts (a ReLU, say) is no fault: a small move does not change the
        loss there.
        """
        shaking = Perturbation.of(self.flow)
        with self.flow.stand_ins.held():  # what a declared block keeps to itself is not lost
            dependent = shaking.dependent(names)
        gated = [n for n in dependent if self.diagnosis.is_gated(n) and shaking.is_asleep(n)]
        lost = [name for name in dependent if name not in gated]
        quiet = [name for name in names if name not in lost]
        return lost + [name for name in quiet if self.diagnosis.is_stepped(name)]

    def _report_lost(self, names: list[str]) -> None:
        place = self.diagnosis.spoilt(names, nonfinite=False)
        self.exam.add(
            "FAIL",
            "grad-zero",
            f"{count(names, 'gradient')} exactly 0 although the loss depends on the "
            f"values: {some(names)}. Look for rounding, a sign, a saturated function "
            "or a factor 0.",
            parameters=names,
            module=place.module,
            line=place.line,
        )

    def _report_dead(self, names: list[str]) -> None:
        """Warn of each cause by itself; fail if no parameter at all can be trained."""
        groups = self.diagnosis.ends(names)
        if not any(self.flow.gradient_norms.values()):
            self._report_nothing(names, next(iter(groups)))
            return
        for place, group in groups.items():
            self.exam.add(
                "WARN",
                "dead",
                f"{count(group, 'gradient')} exactly 0, and the loss does not notice the "
                f"values on this probe: {some(group)}.",
                parameters=group,
                module=place.module or self.diagnosis.forward.owner(group),
                line=place.line,
            )

    def _report_nothing(self, names: list[str], place: Place) -> None:
        scaled = self.flow.subject.options.precision.scaled
        self.exam.add(
            "FAIL",
            "nothing-trainable",
            f"all {count(names, 'gradient')} are exactly 0, and the loss does not notice the "
            "values: nothing can be trained. Look for a factor 0, a hinge that every example "
            "satisfies, or a target that is the output itself"
            + (", or a loss too small for float16." if scaled else "."),
            parameters=names,
            module=place.module,
            line=place.line,
        )
