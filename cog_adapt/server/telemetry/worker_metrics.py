"""The numbers of model processes: of the only one without a label, of several with their names."""

import math
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

_ONLY = ""
_LABEL = "worker"
_GAUGES = {
    "device_memory_bytes": "Memory that the model process holds on its device.",
    "process_memory_bytes": "Resident memory of the model process.",
    "adapter_cache_entries": "Adapters held ready by the model process.",
}
_Family = CounterMetricFamily | GaugeMetricFamily


class WorkerMetrics:
    """The numbers by worker, named as for the only one: a sum over workers drops the label.

    Args:
        registry: of all metrics; the gauges of models come first in it.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._gauges: dict[str, Mapping[str, float]] = {}
        self._crashes: dict[str, int] = {}
        self._restarts: dict[str, int] = {}
        self._self_tests: dict[str, float] = {}
        self.name([_ONLY])
        registry.register(_Collected(self._collect_gauges))

    def register_counts(self) -> None:
        """Add the counts of crashes and the self-tests after the metrics so far."""
        self._registry.register(_Collected(self._collect_counts))

    def name(self, workers: Iterable[str]) -> None:
        """Set the workers' names, before the first of them starts."""
        names = list(workers)
        self._crashes = dict.fromkeys(names, 0)
        self._restarts = dict.fromkeys(names, 0)
        self._self_tests = dict.fromkeys(names, math.nan)

    def crashed(self, worker: str = _ONLY) -> None:
        """Count an unexpected end of a process, and drop its gauges."""
        self._crashes[worker] = self._crashes.get(worker, 0) + 1
        self._gauges.pop(worker, None)

    def restarted(self, worker: str = _ONLY) -> None:
        """Count a start after a crash."""
        self._restarts[worker] = self._restarts.get(worker, 0) + 1

    def self_test(self, passed: bool | None, worker: str = _ONLY) -> None:
        """Record the result of a gradient self-test; a test that is off has none."""
        self._self_tests[worker] = math.nan if passed is None else passed

    def gauges(self, values: Mapping[str, float], worker: str = _ONLY) -> None:
        """Replace the numbers of a worker; shown as `cog_model_<name>`."""
        self._gauges[worker] = {
            name: value for name, value in values.items() if name.isidentifier() and name.isascii()
        }

    def _collect_gauges(self) -> Iterable[_Family]:
        by_name: dict[str, dict[str, float]] = {}
        for worker, values in self._gauges.items():
            for name, value in values.items():
                by_name.setdefault(name, {})[worker] = value
        return [_gauge(name, values) for name, values in by_name.items()]

    def _collect_counts(self) -> Iterable[_Family]:
        labels = [_LABEL] if any(self._crashes) else []
        crashes = CounterMetricFamily(
            "cog_model_process_crashes", "Unexpected ends of the process.", labels=labels
        )
        restarts = CounterMetricFamily(
            "cog_model_process_restarts", "Starts of it after a crash.", labels=labels
        )
        tests = GaugeMetricFamily(
            "cog_self_test_passed",
            "1: the last self-test passed, 0: it failed, NaN: none ran.",
            labels=labels,
        )
        _fill(crashes, self._crashes)
        _fill(restarts, self._restarts)
        _fill(tests, self._self_tests)
        return crashes, restarts, tests


class _Collected(Collector):
    def __init__(self, collect: Callable[[], Iterable[_Family]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[_Family]:
        return self._collect()


def _gauge(name: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    text = _GAUGES.get(name, "A number reported by the model process.")
    labels = [_LABEL] if any(values) else []
    family = GaugeMetricFamily(f"cog_model_{name}", text, labels=labels)
    _fill(family, values)
    return family


def _fill(family: _Family, values: Mapping[str, float]) -> None:
    for worker, value in values.items():
        family.add_metric([worker] if worker else [], value)
