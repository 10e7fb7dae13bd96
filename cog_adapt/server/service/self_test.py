"""What a self-test's report says, in one word."""

from collections.abc import Mapping
from typing import Any


def outcome(report: Mapping[str, Any] | None) -> bool | None:
    """Return whether the test passed; None where there is none, or it is off by name."""
    if report is None or report.get("level") == "off":
        return None
    return report.get("passed") is True
