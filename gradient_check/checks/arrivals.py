"""Step 8: checks that backward ran, and that its gradients arrived at the trained parameters."""

import math
import traceback
from collections.abc import Collection

from gradient_check.checks.flow import GradientFlow
from gradient_check.checks.kept_graphs import remedy, report_later_backward
from gradient_check.checks.missing_gradients import judge_missing_gradients
from gradient_check.checks.strangers import judge_strangers
from gradient_check.checks.unused_parameters import OTHER_MODULE
from gradient_check.checks.zero_gradients import judge_zero_gradients
from gradient_check.diagnosis.copies import Copies
from gradient_check.findings.examination import Numbers, describe
from gradient_check.findings.report import count, some
from gradient_check.phases.libraries import is_library_file


def judge_arrivals(flow: GradientFlow) -> Numbers:
    """Report errors of backward, and gradients misplaced, missing, zero or not finite."""
    if flow.backward_error is not None:
        _report_error(flow, flow.backward_error)
        return {}
    frozen = [n for n, p in flow.subject.parameters.items() if not p.requires_grad]
    if frozen:
        _report_frozen(flow, frozen)
    leaked = flow.guard.leaked_gradients()
    if leaked:
        _report_leak(flow, leaked)
    try:
        nonfinite, empty = flow.measure()
    except RuntimeError as error:  # from the backward of a later portion
        report_later_backward(flow, error)
        return {}
    norms = flow.gradient_norms
    judge_strangers(flow)
    judged = [n for n in flow.subject.names if n not in frozen and n not in flow.unused]
    missing = [name for name in judged if name not in norms]
    judge_missing_gradients(flow, missing, leaked=bool(leaked))
    _judge_nonfinite(flow, nonfinite)
    judge_zero_gradients(flow, [name for name in empty if name in judged])
    zero = [name for name, norm in norms.items() if norm == 0]
    return {"missing": len(flow.subject.parameters) - len(norms), "zero": len(zero)}


def _report_error(flow: GradientFlow, error: Exception) -> None:
    place = flow.diagnosis.backward_raised(error)
    flow.exam.add(
        "FAIL",
        "backward",
        f"backward raised {describe(error)}{_raised_in(error)}. {remedy(str(error))}",
        module=place.module,
        line=place.line,
    )


def _report_leak(flow: GradientFlow, names: Collection[str]) -> None:
    flow.guard.put_back_gradients()
    place = flow.diagnosis.forward.other_module()
    flow.guard.put_back_gradients()
    if place.line is not None:
        flow.exam.add(
            "FAIL",
            "leak-to-base",
            OTHER_MODULE,
            parameters=names,
            module=place.module,
            line=place.line,
        )
        return
    place = Copies(flow.diagnosis).uses_original()
    flow.exam.add(
        "FAIL",
        "leak-to-base",
        f"{count(names, 'gradient')} landed in the original module instead of its replica: "
        f"{some(tuple(names))}. Something inside holds a reference to the original (a "
        "closure, a lambda, a hook); take the module from `self` instead.",
        parameters=names,
        module=place.module,
        line=place.line,
    )


def _report_frozen(flow: GradientFlow, names: list[str]) -> None:
    place = flow.diagnosis.forward.freezes(names)
    flow.exam.add(
        "FAIL",
        "graph-cut",
        f"the forward froze {count(names)}: {some(names)}. A forward must not call "
        "requires_grad_(False) on trained parameters.",
        parameters=names,
        module=place.module,
        line=place.line,
    )


def _judge_nonfinite(flow: GradientFlow, names: list[str]) -> None:
    """Report values that are not finite."""
    if not names or not math.isfinite(flow.loss):
        return
    place = flow.diagnosis.spoilt(names, nonfinite=True)
    flow.exam.add(
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
