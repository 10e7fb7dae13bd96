"""Step 8: checks that backward ran, and that its gradients arrived at the trained parameters."""

import math
import traceback
from collections.abc import Collection

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.kept_graphs import remedy, report_later_backward
from gradient_check.checks.missing_gradients import MissingGradients
from gradient_check.checks.strangers import judge_strangers
from gradient_check.checks.unused_parameters import OTHER_MODULE
from gradient_check.checks.zero_gradients import ZeroGradients
from gradient_check.diagnosis.copies import Copies
from gradient_check.findings.examination import Numbers, describe
from gradient_check.findings.report import count, some
from gradient_check.instruments.gradient_facts import GradientFacts
from gradient_check.phases.libraries import is_library_file


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
        try:
            nonfinite, empty = self._measure()
        except RuntimeError as error:  # of the backward that a further portion needs
            report_later_backward(self.flow, error)
            return {}
        norms = self.flow.gradient_norms
        judge_strangers(self.flow)
        judged = [n for n in self.subject.names if n not in frozen and n not in self.flow.unused]
        missing = [name for name in judged if name not in norms]
        MissingGradients(self.flow).judge(missing, leaked=bool(leaked))
        self._judge_nonfinite(nonfinite)
        ZeroGradients(self.flow).judge([name for name in empty if name in judged])
        zero = [name for name, norm in norms.items() if norm == 0]
        return {"missing": len(self.subject.parameters) - len(norms), "zero": len(zero)}

    def _measure(self) -> tuple[list[str], list[str]]:
        """Note norms, and grounds for later checks; return what is not finite, and what is 0."""
        facts: dict[str, GradientFacts] = {}
        for names in self.subject.held_first() if self.flow.has_graph else ():
            found = self.subject.held.facts_of(names)
            if found is None:
                self.subject.hold(names)
                found = self.subject.held.facts_of(names)
            facts |= found or {}
        self.subject.give_back()
        self.flow.gradient_norms = {name: each.norm for name, each in facts.items()}
        self.flow.partly_zero |= {name for name, each in facts.items() if each.has_zeros}
        self._note_grounds(list(self.flow.gradient_norms.values()))
        nonfinite = [name for name, each in facts.items() if not each.is_finite]
        return nonfinite, [name for name, each in facts.items() if each.is_empty]

    def _note_grounds(self, sizes: list[float]) -> None:
        if any(norm > 0 and math.isfinite(norm) for norm in sizes):
            self.exam.grounds.add("gradients")
        if all(math.isfinite(norm) for norm in sizes):
            self.exam.grounds.add("finite gradients")

    def _report_error(self, error: Exception) -> None:
        place = self.diagnosis.backward_raised(error)
        self.exam.add(
            "FAIL",
            "backward",
            f"backward raised {describe(error)}{_raised_in(error)}. {remedy(str(error))}",
            module=place.module,
            line=place.line,
        )

    def _report_leak(self, names: Collection[str]) -> None:
        self.guard.put_back_gradients()
        place = self.diagnosis.forward.other_module()
        self.guard.put_back_gradients()
        if place.line is not None:
            self.exam.add(
                "FAIL",
                "leak-to-base",
                OTHER_MODULE,
                parameters=names,
                module=place.module,
                line=place.line,
            )
            return
        place = Copies(self.diagnosis).uses_original()
        self.exam.add(
            "FAIL",
            "leak-to-base",
            f"{count(names, 'gradient')} landed in the original module instead of its replica: "
            f"{some(tuple(names))}. Something inside holds a reference to the original (a "
            "closure, a lambda, a hook); take the module from `self` instead.",
            parameters=names,
            module=place.module,
            line=place.line,
        )

    def _report_frozen(self, names: list[str]) -> None:
        place = self.diagnosis.forward.freezes(names)
        self.exam.add(
            "FAIL",
            "graph-cut",
            f"the forward froze {count(names)}: {some(names)}. It must not call "
            "requires_grad_(False) on what is trained.",
            parameters=names,
            module=place.module,
            line=place.line,
        )

    def _judge_nonfinite(self, names: list[str]) -> None:
        """Report values that are not finite."""
        if not names or not math.isfinite(self.flow.loss):
            return
        place = self.diagnosis.spoilt(names, nonfinite=True)
        self.exam.add(
            "FAIL",
            "grad-nonfinite",
            f"{count(names, 'gradient')} with NaN or infinite values: {some(names)}. Keep "
            "roots, logarithms and divisions away from zero (add an epsilon inside).",
            parameters=names,
            module=place.module,
            line=place.line,
        )


def _raised_in(error: Exception) -> str:
    """Return a phrase for the user's function that raised: a hook, or a function's backward."""
    frames = list(traceback.walk_tb(error.__traceback__))
    code = frames[-1][0].f_code if frames else None
    if code is None or is_library_file(code.co_filename):
        return ""
    return f" in `{code.co_name}`"
