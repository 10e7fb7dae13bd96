"""Checks the optimizer's groups before its first step: their parameters and rates."""

import inspect
from typing import Any

from gradient_check.findings.examination import Examination
from gradient_check.findings.report import some
from gradient_check.instruments.subject import Subject


def optimizer_fits(subject: Subject, exam: Examination) -> bool:
    """Return whether the optimizer holds exactly the trained parameters; report why not.

    The result is also False for an optimizer that needs a closure. A learning rate of 0 is
    reported, but steps are still taken.
    """
    optimizer = subject.step.optimizer
    groups = optimizer.param_groups
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        exam.add(
            "FAIL",
            "optimizer",
            f"{type(optimizer).__name__}.step needs a closure, and a training step gives none. "
            "Choose an optimizer that steps by existing gradients, such as torch.optim.AdamW.",
        )
        return False
    held = [id(p) for group in groups for p in group["params"]]
    own = {n: id(p) for n, p in subject.parameters.items()}
    left_out = [n for n, identity in own.items() if identity not in held]
    foreign = len(set(held) - set(own.values()))
    if left_out or foreign:
        exam.add(
            "FAIL",
            "not-optimized",
            f"the optimizer leaves out {len(left_out)} trained parameters ({some(left_out)}) and "
            f"holds {foreign} that are not the replica's. Build the optimizer from the parameters "
            "that are passed for it.",
            parameters=left_out,
        )
        return False
    _check_rates(groups, exam)
    return True


def _check_rates(groups: list[dict[str, Any]], exam: Examination) -> None:
    still = [group for group in groups if float(group["lr"]) == 0]
    if still:
        warms_up = all(float(group.get("initial_lr", 0)) > 0 for group in still)
        exam.add(
            "WARN" if warms_up else "FAIL",
            "lr-zero",
            f"the learning rate is 0 in {len(still)} of {len(groups)} groups"
            + ("; a schedule may raise it." if warms_up else ". Set one above 0."),
        )
