"""The result of a self-test's report, in one word."""

from collections.abc import Mapping
from typing import Any


def outcome(report: Mapping[str, Any] | None) -> bool | None:
    """Return whether the test passed; None if there is none, or it is off."""
    if report is None or report.get("level") == "off":
        return None
    return report.get("passed") is True
