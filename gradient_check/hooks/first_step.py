"""The self-test of a training run, on its first batch, just before its first step.

The callbacks of training libraries share it. This module knows none of these libraries.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

from torch import nn

from gradient_check.check import check_gradients
from gradient_check.findings.report import Finding, GradientReport
from gradient_check.phases.errors import ConfigError
from gradient_check.phases.modes import ThreadModes

OnFailure = Literal["raise", "warn"]


class GradientFlowWarning(UserWarning):
    """A self-test before the first step failed or warned, and training continues."""


class FirstStep:
    """Checks the gradients of one training run, once.

    Attributes:
        report: the report of the check; None before it.
    """

    def __init__(self, on_failure: OnFailure, options: dict[str, Any]) -> None:
        if on_failure not in get_args(OnFailure):
            allowed = ", ".join(get_args(OnFailure))
            raise ConfigError(f"on_failure is {on_failure!r}; allowed: {allowed}.")
        self.on_failure = on_failure
        self.options = {"trainable": _is_trained, **options}
        self.report: GradientReport | None = None

    def check(
        self,
        module: nn.Module,
        batch: Any,  # noqa: ANN401 - any pytree
        loss: Callable[..., Any],
        precision: str | None,
    ) -> None:
        """Check that gradients flow, in the modes that the training forward will meet.

        Raises:
            GradientFlowError: gradients do not flow, and `on_failure` is "raise".
        """
        modes = ThreadModes.current()
        options = {"precision": precision, **self.options}
        report = _of_one_thread(check_gradients(module, batch, loss, **options))
        self.report = _with_modes(report, modes)
        if self.on_failure == "raise":
            self.report.raise_if_failed()
        if any(finding.level != "NOTE" for finding in self.report.findings):
            warnings.warn(str(self.report), GradientFlowWarning, stacklevel=2)


def _is_trained(_: str, parameter: nn.Parameter) -> bool:
    return parameter.requires_grad


def _of_one_thread(report: GradientReport) -> GradientReport:
    """Turn the warning about concurrent inferences into a note.

    A training run has one thread, and a metric inside a module triggers the warning by chance.
    """
    findings = (
        dataclasses.replace(finding, level="NOTE")
        if (finding.code, finding.level) == ("race", "WARN")
        else finding
        for finding in report.findings
    )
    return dataclasses.replace(report, findings=tuple(findings))


def _with_modes(report: GradientReport, modes: ThreadModes) -> GradientReport:
    """Add a finding if the training forward would run where autograd records nothing.

    `check_gradients` sets every mode itself, so it cannot see the modes around its call.
    """
    if modes.grad and not modes.inference:
        return report
    mode = "torch.inference_mode()" if modes.inference else "torch.no_grad()"
    off = "`with torch.inference_mode(False):`" if modes.inference else "`torch.enable_grad()`"
    message = f"training was started under {mode}, which records no graph. Start it in {off}."
    finding = Finding("thread-mode", "FAIL", message)
    return dataclasses.replace(report, findings=(finding, *report.findings))
