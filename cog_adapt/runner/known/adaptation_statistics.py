"""Histograms of the adaptations that took their steps here, by method."""

import threading
from collections.abc import Mapping
from typing import Any

from cog_adapt.runner.scheduling.tick_statistics import Histogram

# fmt: off
SECONDS = (0.01, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)
STEPS = (0.0, 1.0, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0, 1280.0, 5120.0)
# fmt: on


class AdaptationStatistics:
    """How long adaptations took, and how many steps; those that were known do not count."""

    def __init__(self) -> None:
        self._seconds: dict[str, Histogram] = {}
        self._steps: dict[str, Histogram] = {}
        self._lock = threading.Lock()  # runs end on several threads

    def note(self, method: str, seconds: float, steps: int) -> None:
        """Count an adaptation; a method that names parameters counts as `match`."""
        kind = method.partition(":")[0]
        with self._lock:
            self._seconds.setdefault(kind, Histogram(SECONDS)).observe(seconds)
            self._steps.setdefault(kind, Histogram(STEPS)).observe(steps)

    def gauges(self) -> Mapping[str, dict[str, Any]]:
        """Return the histograms by name and method; none before the first adaptation."""
        of = {"adaptation_seconds": self._seconds, "adaptation_steps": self._steps}
        with self._lock:
            return {
                name: {"method": {method: each.to_json() for method, each in found.items()}}
                for name, found in of.items()
                if found
            }
