"""Reports every change of a prediction to operators, by metrics, traces and log lines."""

import logging
from typing import Any

import msgspec
import structlog

from cog_adapt.server.protocol import Kind
from cog_adapt.server.service.prediction import Prediction, PredictionSpec
from cog_adapt.server.service.self_test import outcome
from cog_adapt.server.telemetry.metrics import Metrics
from cog_adapt.server.telemetry.traces import PredictionTraces, Trace

log = structlog.get_logger()


class Observer:
    """Counts and traces the events of predictions; never changes them.

    Args:
        metrics: for Prometheus.
        traces: follow requests across services.
    """

    def __init__(self, metrics: Metrics, traces: PredictionTraces) -> None:
        self._metrics = metrics
        self._traces = traces
        self._open: dict[tuple[Kind, str, str], Trace] = {}

    def accepted(self, prediction: Prediction) -> None:
        """Record that a prediction waits for a slot."""
        request = prediction.request
        if self._traces.enabled:
            self._trace(request)
        self._metrics.accepted(request.kind)

    def _trace(self, request: PredictionSpec) -> None:
        trace = self._traces.begin(
            headers=request.headers,
            kind=request.kind,
            prediction_id=request.id,
            context=request.context,
        )
        if trace is not None:
            self._open[request.key] = trace
            trace.queued()

    def rejected(self, reason: str) -> None:
        """Record a refused request; the reason is a word or two."""
        self._metrics.rejected(reason)

    def started(self, prediction: Prediction) -> None:
        """Record that the worker has begun a prediction."""
        if (trace := self._open.get(prediction.key)) is not None:
            trace.started()
        self._metrics.started(prediction.request.kind, prediction.waited)

    def on_metric(self, prediction: Prediction, name: str, value: Any) -> None:  # noqa: ANN401
        """Record a metric of a run."""
        self._metrics.metric(name, value)
        if (trace := self._open.get(prediction.key)) is not None:
            trace.step(name, value)

    def headers(self, prediction: Prediction) -> dict[str, str]:
        """Return the headers that carry the trace of a prediction to a webhook's receiver."""
        trace = self._open.get(prediction.key)
        return self._traces.copy(prediction.request.headers) if trace is None else trace.headers()

    def finished(self, prediction: Prediction) -> None:
        """Record the end of a prediction."""
        request = prediction.request
        if (trace := self._open.pop(request.key, None)) is not None:
            trace.ended(prediction.status, prediction.error)
        run = {"run": prediction.metrics["predict_time"]} if prediction.started_at else {}
        durations = run | {"total": prediction.age}
        self._metrics.finished(request.kind, prediction.status, durations)
        is_plain = prediction.status == "succeeded" and not request.durable
        if not is_plain or logging.root.isEnabledFor(logging.DEBUG):
            # a line costs more than all the rest, so runs that a client waited for get none
            log.info(
                "prediction ended",
                prediction_id=request.id,
                kind=request.kind,
                status=prediction.status,
                seconds=round(prediction.age, 3),
            )

    def moved(self, prediction: Prediction) -> None:
        """Record that another server goes on with a prediction."""
        request = prediction.request
        if (trace := self._open.pop(request.key, None)) is not None:
            trace.ended("moved", None)
        self._metrics.finished(request.kind, "moved", {})
        log.info("taken by another server", prediction_id=request.id, kind=request.kind)

    def crashed(self, worker: str = "") -> None:
        """Record the death of a worker."""
        self._metrics.of_workers.crashed(worker)

    def set_up(self, self_test: bytes | None, *, is_again: bool, worker: str = "") -> None:
        """Record that a worker is ready; `self_test` is its report, as JSON."""
        if is_again:
            self._metrics.of_workers.restarted(worker)
        if self_test is not None:
            passed = outcome(msgspec.json.decode(self_test))
            self._metrics.of_workers.self_test(passed, worker)

    def record_error(self) -> None:
        """Record that a final record could not be written in time."""
        self._metrics.record_error()
