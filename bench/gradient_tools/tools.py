"""The compared tools: each takes a case and says in words whether something is wrong.

A tool raises `Wrong` with its words, or lets the loop's error pass: a loop that raises has told
its user. `NotApplicable` says that a tool does not apply to a case.
"""

import math
from collections.abc import Callable

import torch

from bench.gradient_tools.double_precision import (
    double_gradcheck,
    double_gradgradcheck,
    forward_mode_check,
)
from bench.gradient_tools.mixing import examples_are_mixed
from bench.gradient_tools.training import Training
from bench.gradient_tools.verdicts import Wrong
from cog_adapt import check_gradients
from gradient_check.exam.case import Case

_STEPS = 20
_FASTER = 1e-2  # a rate at which a small model learns one batch in 20 steps
Tool = Callable[[Case], None]


def ours(case: Case) -> None:
    """Run `check_gradients`; only failures count as alarms, warnings do not."""
    report = check_gradients(case.module, case.probe, case.loss, **case.options)
    if not report.passed:
        raise Wrong("\n".join(str(each) for each in report.findings if each.level == "FAIL"))


def two_steps(case: Case) -> None:
    """Take two steps, as a training loop without any check does."""
    training = Training(case)
    training.step()
    training.step()


def anomaly_mode(case: Case) -> None:
    """Take two steps with `torch.autograd.detect_anomaly`."""
    training = Training(case)
    with torch.autograd.detect_anomaly():
        training.step()
        training.step()


def gradients_there(case: Case) -> None:
    """Look for gradients that are None, all zeros or not finite after a backward."""
    training = Training(case)
    training.backward()
    for name, parameter in training.parameters.items():
        gradient = parameter.grad
        if gradient is None or not bool(gradient.to_dense().any()):
            raise Wrong(f"{name}: the gradient is {'None' if gradient is None else 'zero'}")
        if not bool(torch.isfinite(gradient.to_dense()).all()):
            raise Wrong(f"{name}: the gradient is not finite")


def parameters_change(case: Case) -> None:
    """Look for parameters that a step of Adam without weight decay leaves unchanged."""
    training = Training(case)
    before = {name: p.detach().clone() for name, p in training.parameters.items()}
    training.step()
    for name, parameter in training.parameters.items():
        if torch.equal(parameter.detach(), before[name]):
            raise Wrong(f"{name} is as it was")


def loss_falls(case: Case) -> None:
    """Train on one batch for 20 steps, and look whether the loss falls."""
    training = Training(case, _FASTER)
    losses = [training.step() for _ in range(_STEPS)]
    if not losses[-1] < losses[0] or not math.isfinite(losses[-1]):
        raise Wrong(f"the loss went from {losses[0]:.4g} to {losses[-1]:.4g}")


BY_HAND = ("two steps", "gradients there", "parameters change", "loss falls")
TOOLS: dict[str, Tool] = {
    "check_gradients": ours,
    "gradcheck": double_gradcheck,
    "gradgradcheck": double_gradgradcheck,
    "gradcheck, forward mode": forward_mode_check,
    "anomaly mode": anomaly_mode,
    "batch mixing": examples_are_mixed,
    "two steps": two_steps,
    "gradients there": gradients_there,
    "parameters change": parameters_change,
    "loss falls": loss_falls,
}
