"""The numbers at `GET /metrics`.

Every method may be called from any thread. Labels never come from clients: kinds, states, reasons
and routes are the server's own, so the number of time series is bounded.
"""

import math
from collections.abc import Iterable, Mapping
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from platform import python_version
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from cog_adapt.server.telemetry.worker_metrics import WorkerMetrics

# fmt: off
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
           1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
# fmt: on
_BUDGET_GAUGES = (
    ("used_bytes", "Bytes held.", "used"),
    ("limit_bytes", "Bytes allowed.", "most"),
    ("largest_owner_bytes", "Bytes held for the owner with most.", "largest"),
    ("owner_limit_bytes", "Bytes allowed to one owner.", "most_of_owner"),
)


class Used(Protocol):
    """A budget of bytes.

    Attributes:
        name: of its purpose.
        used: bytes now.
        most: bytes allowed.
        largest: bytes used by the heaviest owner, without the name.
        most_of_owner: the most bytes of one owner.
    """

    name: str

    @property
    def used(self) -> int: ...  # noqa: D102 - above

    @property
    def most(self) -> float: ...  # noqa: D102 - above

    @property
    def largest(self) -> int: ...  # noqa: D102 - above

    @property
    def most_of_owner(self) -> float: ...  # noqa: D102 - above


class _BudgetGauges(Collector):
    """Gauges of budgets of bytes; each request for metrics reads the budgets."""

    def __init__(self) -> None:
        self.budgets: dict[str, Used] = {}

    def collect(self) -> Iterable[GaugeMetricFamily]:
        return [self._show(metric, text, of) for metric, text, of in _BUDGET_GAUGES]

    def _show(self, metric: str, text: str, attribute: str) -> GaugeMetricFamily:
        family = GaugeMetricFamily(f"cog_budget_{metric}", text, labels=["budget"])
        for name, budget in self.budgets.items():
            family.add_metric([name], getattr(budget, attribute))
        return family


def _version_of(package: str) -> str:
    """Return the version of an installed package; a checkout is none."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "source"


class Metrics:
    """The server's counters, gauges and histograms, on a registry of their own.

    `kind` is `predict` or `train` throughout; times are in seconds. The series of labels are
    cached, since looking one up takes 4 µs, and a request counts in seven (24 µs together).

    Attributes:
        registry: of Prometheus.
        of_workers: the numbers that belong to a model process.
    """

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they only double the series
        self.registry = CollectorRegistry()
        self.of_workers = WorkerMetrics(self.registry)
        self._budgets = _BudgetGauges()
        self.registry.register(self._budgets)
        ProcessCollector(registry=self.registry)
        self._describe_build()
        self._count_predictions()
        self._count_model()
        self._count_requests()

    def _describe_build(self) -> None:
        info = {name: _version_of(name) for name in ("cog_adapt", "cog")}
        info |= {"python": python_version()}
        build = Gauge("cog_build_info", "Versions.", [*info], registry=self.registry)
        build.labels(**info).set(1)

    def _count_predictions(self) -> None:
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, buckets=SECONDS, registry=self.registry)
        self._accepted = cache(
            counter("cog_predictions_accepted", "Accepted to run or wait.", ["kind"]).labels
        )
        self._rejected = cache(
            counter("cog_predictions_rejected", "Refused, by reason.", ["reason"]).labels
        )
        self._finished = cache(
            counter("cog_predictions_finished", "Ended, by status.", ["kind", "status"]).labels
        )
        self._durations = cache(
            histogram(
                "cog_prediction_duration_seconds",
                "Time of a prediction in a phase: queue, run, total.",
                ["kind", "phase"],
            ).labels
        )
        self._depth = gauge("cog_queue_depth", "Predictions that wait for a slot.")
        self._running = gauge("cog_predictions_running", "Predictions that run.")

    def _count_model(self) -> None:
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        self._steps = counter("cog_adaptation_steps", "Gradient steps that were reported.")
        self._loss = gauge("cog_adaptation_loss", "Loss last reported; NaN: none was.")
        self._loss.set(math.nan)
        self.of_workers.register_counts()

    def _count_requests(self) -> None:
        counter = partial(Counter, registry=self.registry)
        histogram = partial(Histogram, buckets=SECONDS, registry=self.registry)
        self._webhooks = cache(
            counter("cog_webhooks", "Webhook requests.", ["event", "outcome"]).labels
        )
        self._record_errors = counter("cog_record_errors", "Records that were not written.")
        self._requests = cache(
            counter("cog_http_requests", "Answered requests.", ["method", "route", "status"]).labels
        )
        self._request_durations = cache(
            histogram(
                "cog_http_request_duration_seconds",
                "Time from a request's headers to the last byte of its answer.",
                ["method", "route"],
            ).labels
        )

    def watch(self, budget: Used) -> None:
        """Add a budget to the metrics."""
        self._budgets.budgets[budget.name] = budget

    def accepted(self, kind: str) -> None:
        """Count a prediction that will run, now or after waiting."""
        self._accepted(kind).inc()

    def rejected(self, reason: str) -> None:
        """Count a refused prediction; reason is one of the server's words, such as `queue_full`."""
        self._rejected(reason).inc()

    def queued(self, depth: int) -> None:
        """Set the number of waiting predictions."""
        self._depth.set(depth)

    def running(self, count: int) -> None:
        """Set the number of running predictions."""
        self._running.set(count)

    def started(self, kind: str, waited: float) -> None:
        """Count a prediction that left the queue; `finished` need not report its `queue` phase."""
        self._durations(kind, "queue").observe(waited)

    def finished(self, kind: str, status: str, phases: Mapping[str, float]) -> None:
        """Count the end of a prediction; phases are seconds by name, such as `run` and `total`."""
        self._finished(kind, status).inc()
        for phase, seconds in phases.items():
            self._durations(kind, phase).observe(seconds)

    def metric(self, name: str, value: object) -> None:
        """Count a model's metric; only `adaptation.step` and `adaptation.loss` are counted."""
        if name == "adaptation.step":
            self._steps.inc()
        elif name == "adaptation.loss" and isinstance(value, int | float):
            self._loss.set(value)

    def webhook(self, event: str, outcome: str) -> None:
        """Count a webhook request by its outcome, such as `delivered`, `failed`, `refused`."""
        self._webhooks(event, outcome).inc()

    def record_error(self) -> None:
        """Count a record that could not be written."""
        self._record_errors.inc()

    def http(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answered request; route is a template, never a path."""
        self._requests(method, route, str(status)).inc()
        self._request_durations(method, route).observe(seconds)

    def expose(self, accept: str = "") -> tuple[bytes, str]:
        """Return the body and content type of `/metrics`.

        Args:
            accept: the request's header; it selects OpenMetrics, else the answer is text.
        """
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
