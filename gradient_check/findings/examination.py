"""The results of one self-test: the checks that ran, their ends, and their findings."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from gradient_check.findings.report import Check, Finding, Level, Status

_MOST_TEXT = 240
_WITHOUT = {
    "a replica": "there is no replica",
    "served": "inference raised, or two answers differed",
    "loss": "there is no finite loss",
    "repeatable": "the forward alternates",
    "gradients": "there are no gradients",
    "finite gradients": "a gradient is not finite",
    "stepped": "no step was taken",
}
Numbers = Mapping[str, float]
_Found = TypeVar("_Found")


class Examination:
    """Runs checks in order. A check may add `grounds`; a check that lacks a ground is skipped."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.checks: list[Check] = []
        self.grounds: set[str] = set()
        self._reason = ""

    def check(
        self,
        name: str,
        function: Callable[[], Numbers | None],
        needs: Collection[str] = (),
    ) -> bool:
        """Run one check unless a ground that it needs is missing. Return whether it passed.

        An unexpected exception in the check becomes a finding: the code under test may raise
        anything.
        """
        lacking = [each for each in needs if each not in self.grounds]
        if lacking:
            reason = _WITHOUT.get(lacking[0], f"the check of the {lacking[0]} did not pass")
            self.checks.append(Check(name, "skipped", 0.0, reason=reason))
            return False
        began, known = time.perf_counter(), len(self.findings)
        self._reason = ""
        numbers: Numbers = {}
        try:
            numbers = function() or {}
        except Exception as error:  # noqa: BLE001 - the code under test may raise anything
            self.add("FAIL", name, f"the check was stopped by {describe(error)}")
        new = self.findings[known:]
        status: Status = "passed"
        if new:
            levels = {finding.level for finding in new}
            status = "failed" if "FAIL" in levels else "warned" if "WARN" in levels else "passed"
        if self._reason and status == "passed":
            status = "skipped"
        seconds = time.perf_counter() - began
        self.checks.append(Check(name, status, seconds, dict(numbers), self._reason))
        return status != "failed"

    def leave_out(self, reason: str) -> None:
        """Record that the running check cannot be made, and why."""
        self._reason = reason

    def add(  # noqa: PLR0913 - the fields of a finding
        self,
        level: Level,
        code: str,
        message: str,
        *,
        parameters: Collection[str] = (),
        module: str | None = None,
        line: str | None = None,
    ) -> None:
        """Add a finding unless it is already known.

        Args:
            level: FAIL for a fault, WARN for a hint, NOTE for a declared property.
            code: of the table in `docs/checks.md`.
            message: what was found, with its remedy.
            parameters: the names of those that it concerns.
            module: the path of the module at fault.
            line: `file:line: code` of the line at fault.
        """
        self.keep(Finding(code, level, message, tuple(parameters), module, line))

    def keep(self, finding: Finding) -> None:
        """Keep a finding that was made elsewhere, unless it is already known."""
        if finding not in self.findings:
            self.findings.append(finding)

    def has(self, *codes: str) -> bool:
        """Return whether one of these codes was found."""
        return any(finding.code in codes for finding in self.findings)


def attempted(function: Callable[[], _Found], otherwise: _Found) -> _Found:
    """Return a diagnosis's result, or a default if it raises.

    A known fault is reported even if the diagnosis of the fault raises: the code under test may
    refuse to run as the diagnosis runs it.
    """
    try:
        return function()
    except Exception:  # noqa: BLE001 - the code under test may raise anything
        return otherwise


def describe(error: BaseException) -> str:
    """Return an exception's class and the first line of its text; for a list the first lines."""
    first = str(error).strip().splitlines()
    if first and first[0].endswith(":"):
        first = [" ".join(line.strip() for line in first)]
    return f"{type(error).__name__}: {_brief(first[0])}" if first else type(error).__name__


def _brief(text: str) -> str:
    """Return the words of a text that fit."""
    if len(text) <= _MOST_TEXT:
        return text
    return (text[:_MOST_TEXT].rpartition(" ")[0] or text[:_MOST_TEXT]) + " …"
