"""The progress of an adaptation as its caller sees it: one log line and metrics for each step.

This module knows no transport: the caller passes in the scope of its run. Text printed here belongs
to the prediction that runs on this thread or task, as all output of a predictor does.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from cog_adapt.runner.adaptation.memory_estimate import Waiting
from cog_adapt.runner.adaptation.report import Step

_MOST_EARLY = 100
_MOST_CHARACTERS = 1000


class Scope(Protocol):
    """The scope of a run, `self.scope` of a Cog predictor.

    Attributes:
        context: values of the request beside its input; a server may name the owner there.
    """

    @property
    def context(self) -> Mapping[str, str]:
        """Texts by name."""

    def record_metric(self, key: str, value: Any, /) -> None:  # noqa: ANN401 - Cog's own
        """Record a metric of the run."""


class Progress:
    """Shows steps and outcomes.

    Args:
        scope: receives the metrics; None: none are recorded.
    """

    def __init__(self, scope: Scope | None = None) -> None:
        self._record = scope.record_metric if scope else lambda _name, _value: None

    def show(self, progress: object) -> None:
        """Show a step or a wait; other progress is internal."""
        if isinstance(progress, Step):
            self.show_step(progress)
        elif isinstance(progress, Waiting):
            print(f"the adaptation {progress.words}", flush=True)  # noqa: T201

    def show_early(self, predictions: list[Any], expected: str, step: int = 0) -> None:
        """Print and record `early`: answers before the end, with a sentence on their quality.

        If there are many answers, only the first are shown. `step` is recorded if one was taken.
        """
        early: dict[str, Any] = {"predictions": predictions[:_MOST_EARLY], "expected": expected}
        if step:
            early["step"] = step
        logged = early | {"predictions": [*map(_in_a_line, early["predictions"])]}
        print(f"early {json.dumps(logged, default=repr)[:_MOST_CHARACTERS]}", flush=True)  # noqa: T201
        self._record("early", early)

    def show_step(self, step: Step) -> None:
        """Print a step, and record `adaptation.step`, `.loss` and `.gradient_norm`."""
        print(f"step {step.number}/{step.of} loss {step.loss:.4f}", file=sys.stdout, flush=True)  # noqa: T201
        self._record("adaptation.step", step.number)
        self._record("adaptation.loss", step.loss)
        self._record("adaptation.gradient_norm", step.gradient_norm)

    def show_outcome(self, adapter: str | None, report: dict[str, Any] | None) -> None:
        """Record `adaptation.adapter` and `adaptation.report`; a stream cannot carry them."""
        if adapter is not None:
            self._record("adaptation.adapter", adapter)
        if report is not None:
            self._record("adaptation.report", report)

    def show_generation(self, facts: Mapping[str, Any]) -> None:
        """Record the cost of a streamed answer as `generation.…`."""
        for name, value in facts.items():
            self._record(f"generation.{name}", value)

    def show_receipt(self, receipt: dict[str, Any]) -> None:
        """Record `adaptation.receipt`."""
        self._record("adaptation.receipt", receipt)


def _in_a_line(prediction: Any) -> Any:  # noqa: ANN401 - the task's own
    """Return a prediction for the log; of a file's data URI, only its type."""
    if isinstance(prediction, str) and prediction.startswith("data:"):
        return prediction.partition(",")[0]
    return prediction
