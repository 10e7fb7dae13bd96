"""The numbers of model processes: of the only one without a label, of several with their names."""

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from cog_adapt.server.protocol import Distribution, Gauges

_ONLY = ""
_LABEL = "worker"
_GAUGES = {
    "device_memory_bytes": "Memory that the model process holds on its device.",
    "process_memory_bytes": "Resident memory of the model process.",
    "adapter_cache_entries": "Adapters held ready by the model process.",
}
_HISTOGRAMS = {
    "adaptation_seconds": "Time of an adaptation that was not known.",
    "adaptation_steps": "Gradient steps of an adaptation that was not known.",
    "prediction_tick_seconds": "Time of a tick of predictions on the model thread.",
    "adaptation_tick_seconds": "Time of a tick of adaptations, part of a step, on that thread.",
    "prediction_tick_requests": "Requests that share a tick of predictions.",
}
_INFO = ("task", "base", "device", "precision")
_MOST_CHARACTERS = 100
_Family = CounterMetricFamily | GaugeMetricFamily
T = TypeVar("T")


class WorkerMetrics:
    """The numbers by worker, named as for the only one: a sum over workers drops the label.

    Args:
        registry: of all metrics; the gauges of models come first in it.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._measured: dict[str, Gauges] = {}
        self._crashes: dict[str, int] = {}
        self._restarts: dict[str, int] = {}
        self._self_tests: dict[str, float] = {}
        self.name([_ONLY])
        registry.register(_Collected(self._collect_measured))

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
        self._measured.pop(worker, None)

    def restarted(self, worker: str = _ONLY) -> None:
        """Count a start after a crash."""
        self._restarts[worker] = self._restarts.get(worker, 0) + 1

    def self_test(self, passed: bool | None, worker: str = _ONLY) -> None:
        """Record the result of a gradient self-test; a test that is off has none."""
        self._self_tests[worker] = math.nan if passed is None else passed

    def measured(self, found: Gauges, worker: str = _ONLY) -> None:
        """Replace the numbers of a worker; shown as `cog_model_<name>`, and `cog_model_info`."""
        self._measured[worker] = found

    def _collect_measured(self) -> Iterable[Metric]:
        gauges = _by_name({name: each.values for name, each in self._measured.items()})
        histograms = _by_name({name: each.histograms for name, each in self._measured.items()})
        infos = {name: each.info for name, each in self._measured.items()}
        return [
            *(_gauge(name, values) for name, values in gauges.items()),
            *(_histogram(name, values) for name, values in histograms.items()),
            *([_info(infos)] if any(infos.values()) else []),
        ]

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
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()


def _by_name(of_workers: Mapping[str, Mapping[str, T]]) -> dict[str, dict[str, T]]:
    """Return values by metric and worker; what cannot be a metric's name is left out."""
    names = dict.fromkeys(name for values in of_workers.values() for name in values)
    return {
        name: {worker: each[name] for worker, each in of_workers.items() if name in each}
        for name in names
        if name.isidentifier() and name.isascii()
    }


def _histogram(name: str, values: Mapping[str, list[Distribution]]) -> HistogramMetricFamily:
    text = _HISTOGRAMS.get(name, "A histogram reported by the model process.")
    every = [each for found in values.values() for each in found]
    own = dict.fromkeys(label for each in every for label in each.labels)
    labels = [*own, *([_LABEL] if any(values) else [])]
    family = HistogramMetricFamily(f"cog_model_{name}", text, labels=labels)
    for worker, each in [(worker, each) for worker, found in values.items() for each in found]:
        shown = [each.labels.get(label, "")[:_MOST_CHARACTERS] for label in own]
        totals = accumulate(each.counts)
        buckets = [*zip(map(str, [*each.bounds, "+Inf"]), totals, strict=True)]
        family.add_metric([*shown, *([worker] if worker else [])], buckets, each.sum)
    return family


def _info(infos: Mapping[str, Mapping[str, str]]) -> GaugeMetricFamily:
    """Return what each worker serves, as labels of a 1."""
    labels = [*_INFO, *([_LABEL] if any(infos) else [])]
    family = GaugeMetricFamily("cog_model_info", "What the model process serves.", labels=labels)
    for worker, each in infos.items():
        values = [each.get(name, "")[:_MOST_CHARACTERS] for name in _INFO]
        family.add_metric([*values, *([worker] if worker else [])], 1)
    return family


def _gauge(name: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    text = _GAUGES.get(name, "A number reported by the model process.")
    labels = [_LABEL] if any(values) else []
    family = GaugeMetricFamily(f"cog_model_{name}", text, labels=labels)
    _fill(family, values)
    return family


def _fill(family: _Family, values: Mapping[str, float]) -> None:
    for worker, value in values.items():
        family.add_metric([worker] if worker else [], value)
