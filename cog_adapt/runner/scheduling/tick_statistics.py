"""Histograms of ticks: how long they last, and how many requests share one. Knows no server."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

# fmt: off
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
REQUESTS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
# fmt: on


class Histogram:
    """Counts of values by their size; one thread writes at a time, any may read.

    Args:
        bounds: the largest value of each count but the last, which has all beyond.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = (*bounds,)
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def to_json(self) -> dict[str, Any]:
        """Return `bounds`, `counts` (one more than bounds, not cumulative) and `sum`."""
        return {"bounds": [*self._bounds], "counts": [*self._counts], "sum": self._sum}


class TickStatistics:
    """The histograms of a model thread's ticks."""

    def __init__(self) -> None:
        self._predictions = Histogram(SECONDS)
        self._adaptations = Histogram(SECONDS)
        self._requests = Histogram(REQUESTS)

    def note(self, seconds: float, requests: int, *, is_short: bool) -> None:
        """Count a tick; of long work (adaptations), each is one request's."""
        (self._predictions if is_short else self._adaptations).observe(seconds)
        if is_short:
            self._requests.observe(requests)

    def gauges(self) -> Mapping[str, dict[str, Any]]:
        """Return the histograms by name, as `Histogram.to_json` has them."""
        return {
            "prediction_tick_seconds": self._predictions.to_json(),
            "adaptation_tick_seconds": self._adaptations.to_json(),
            "prediction_tick_requests": self._requests.to_json(),
        }
