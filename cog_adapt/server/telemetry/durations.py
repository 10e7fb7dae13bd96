"""Histograms of seconds that cost half a microsecond an observation.

`prometheus_client.Histogram` takes five, for two locks and a search through its buckets in Python:
four times for each prediction, that is more than all else that the metrics do.
"""

import threading
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class _Series:
    """What was observed under one set of label values."""

    __slots__ = ("counts", "total")

    def __init__(self, buckets: int) -> None:
        self.counts = [0] * (buckets + 1)
        self.total = 0.0


class Durations(Collector):
    """A histogram by labels, for a registry.

    Args:
        name: of the metric.
        documentation: what it counts.
        labels: names.
        bounds: the buckets' upper ends, in seconds, rising.
        most_series: what is new beyond them counts as `other`.
    """

    def __init__(
        self,
        name: str,
        documentation: str,
        labels: Sequence[str],
        bounds: Sequence[float],
        most_series: int,
    ) -> None:
        self._name, self._documentation = name, documentation
        self._labels, self._bounds = labels, bounds
        self._most_series = most_series
        self._series: dict[tuple[str, ...], _Series] = {}
        self._lock = threading.Lock()

    def observe(self, labels: tuple[str, ...], seconds: float) -> None:
        """Count so many seconds."""
        with self._lock:
            series = self._series.get(labels) or self._begin(labels)
            series.counts[bisect_left(self._bounds, seconds)] += 1
            series.total += seconds

    def _begin(self, labels: tuple[str, ...]) -> _Series:
        if len(self._series) >= self._most_series:
            labels = tuple("other" for _ in labels)
        return self._series.setdefault(labels, _Series(len(self._bounds)))

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """The state of now."""
        family = HistogramMetricFamily(self._name, self._documentation, labels=self._labels)
        ends = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        with self._lock:
            for labels, series in self._series.items():
                sums = zip(ends, accumulate(series.counts), strict=True)
                family.add_metric(labels, list(sums), series.total)
        yield family
