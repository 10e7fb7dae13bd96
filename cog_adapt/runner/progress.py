"""What a caller sees of an adaptation while it runs: a line of log and metrics for each step.

Knows no transport: the door hands in its `record_metric`. What is printed here belongs to the
prediction that runs on this thread or task, as everything that a predictor prints does.
"""

import sys
from collections.abc import Callable
from typing import Any

from cog_adapt.runner.report import Step

Record = Callable[[str, Any], None]
"""Cog's `record_metric(name, value)`."""


class Progress:
    """Shows steps and outcomes.

    Args:
        record: where metrics go; None records none.
    """

    def __init__(self, record: Record | None = None) -> None:
        self._record = record or (lambda _name, _value: None)

    def show_step(self, step: Step) -> None:
        """Print a step, and record `adaptation.step` and `adaptation.loss`."""
        print(f"step {step.number}/{step.of} loss {step.loss:.4f}", file=sys.stdout, flush=True)  # noqa: T201
        self._record("adaptation.step", step.number)
        self._record("adaptation.loss", step.loss)

    def show_outcome(self, adapter: str | None, report: dict[str, Any] | None) -> None:
        """Record `adaptation.adapter` and `adaptation.report`; a stream has no other place."""
        if adapter is not None:
            self._record("adaptation.adapter", adapter)
        if report is not None:
            self._record("adaptation.report", report)
