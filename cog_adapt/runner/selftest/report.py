"""The result of a self-test at any level, as values and as text."""

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult

from cog_adapt.runner.config import FULL, OFF
from cog_adapt.runner.errors import ConfigError, GradientFlowError
from gradient_check import GradientReport
from gradient_check.display import render

IS_OFF = "the gradient self-test is off (SELF_TEST=off): nothing proves that gradients flow"


@dataclass(frozen=True)
class SelfTestReport:
    """The result of a self-test: a report for each precision, and one for calling contexts.

    Attributes:
        level: `full`, `quick` (one report) or `off` (none).
    """

    reports: tuple[GradientReport, ...]
    level: str = FULL

    @property
    def passed(self) -> bool:
        """Whether no check failed; warnings do not count. A test that is off has not passed."""
        return self.level != OFF and not self._failed

    @property
    def _failed(self) -> bool:
        return not all(report.passed for report in self.reports)

    @property
    def outcome(self) -> str:
        """The outcome in a word or two."""
        if self.level == OFF:
            return "left out"
        return "passed" if self.passed else "failed"

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of all findings, each once."""
        return tuple(dict.fromkeys(code for report in self.reports for code in report.codes))

    def strictly(self) -> "SelfTestReport":
        """Return the report with skipped and unverified parts as failures."""
        return replace(self, reports=tuple(report.strictly() for report in self.reports))

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts, lists, strings and numbers; `passed` is None if the test is off."""
        reports = [report.to_json() for report in self.reports]
        if self.level == OFF:
            return {"passed": None, "level": OFF, "detail": IS_OFF, "reports": reports}
        return {"passed": self.passed, "level": self.level, "reports": reports}

    def raise_if_failed(self) -> None:
        """Raise GradientFlowError, whose message is this report, if the test failed."""
        if self._failed:
            raise GradientFlowError(str(self))

    def __str__(self) -> str:
        return "\n".join(str(report) for report in self.reports) or IS_OFF

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from (render(report) for report in self.reports)


def check_writable(path: Path) -> None:
    """Refuse a report's file before the test if it cannot be written.

    Raises:
        ConfigError: it is a folder, its folder does not exist, or it may not be written.
    """
    folder = path.parent
    try:
        is_new, is_folder, has_folder = not path.exists(), path.is_dir(), folder.is_dir()
    except OSError as error:  # for instance a name that is too long
        raise _unwritable(path, str(error.strerror)) from error
    if is_folder:
        raise _unwritable(path, "it is a folder")
    if not has_folder:
        raise _unwritable(path, f"there is no folder {str(folder)!r}")
    if not os.access(folder if is_new else path, os.W_OK):
        raise _unwritable(path, "it may not be written")


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write a report's values to a file.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        path.write_text(json.dumps(values, indent=2) + "\n")
    except OSError as error:
        raise _unwritable(path, str(error.strerror)) from error


def _unwritable(path: Path, why: str) -> ConfigError:
    return ConfigError(
        f"--json {str(path)!r} cannot be written: {why}. Name a file in a folder that exists and "
        "may be written."
    )
