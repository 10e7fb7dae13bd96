"""A trace for each prediction: its time in the queue, its run, its adaptation steps.

Off unless the operator asks; while off, headers are only passed on. FastAPI itself makes the HTTP
span, the parent of a prediction's span. Names and limits are Cog's.
"""

import os
import re
import threading
from collections.abc import Mapping
from time import time_ns
from typing import TYPE_CHECKING, Any

import structlog
from fastapi.telemetry import TelemetryConfig
from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.trace import (
    Span,
    StatusCode,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from cog_adapt.server.telemetry.exporting import (
    are_traces_wanted,
    open_provider,
    read_trace_headers,
)
from cog_adapt.server.telemetry.propagation import TraceHeaders

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_NAMES = {"predict": "cog.prediction", "train": "cog.train"}
_TAG = re.compile(r"trace\.([A-Za-z0-9._-]{1,64})")
_MAX_TAGS = 16
_MAX_VALUE_BYTES = 128
_MAX_ERROR = 256
_FLUSH_SECONDS = 5
_UNTRACED = frozenset({"/", "/health-check", "/healthz", "/readyz", "/metrics"})


class Trace:
    """The trace of one prediction."""

    __slots__ = ("_boundary", "_loss", "_name", "_names", "_phase", "_span", "_step", "_tracer")

    def __init__(self, names: TraceHeaders, tracer: Tracer, name: str, span: Span) -> None:
        self._names = names
        self._tracer = tracer
        self._name = name
        self._span = span
        self._phase: Span | None = None
        self._step: Span | None = None
        self._boundary = 0  # when the last step ended, ns
        self._loss: float | None = None  # a loss that was reported before its step

    def queued(self) -> None:
        """Record that the prediction waits for a slot."""
        self._close_phase()
        self._phase = self._open(f"{self._name}.queue")

    def started(self) -> None:
        """Record that the model has begun."""
        self._close_phase()
        self._phase = self._open(f"{self._name}.execute")
        self._boundary = time_ns()

    def step(self, name: str, value: object) -> None:
        """Record a metric; `adaptation.step` and `adaptation.loss` make step spans."""
        if self._phase is None or not isinstance(value, int | float):
            return
        if name == "adaptation.step":
            self._open_step(value)
        elif name == "adaptation.loss":
            self._note_loss(value)

    def ended(self, status: str, error: str | None = None) -> None:
        """End the trace with the final status; a second call has no effect."""
        if not self._span.is_recording():
            return
        self._close_phase()
        self._span.set_attribute("cog.prediction.status", status)
        if status == "failed":
            self._span.set_attribute("error.type", "prediction_failed")
            self._span.set_status(StatusCode.ERROR, (error or "")[:_MAX_ERROR])
        self._span.end()

    def headers(self) -> dict[str, str]:
        """Return the headers for requests on its behalf, such as webhooks."""
        headers: dict[str, str] = {}
        self._names.inject(headers, set_span_in_context(self._span))
        return headers

    def _open(self, name: str, start: int | None = None) -> Span:
        return self._tracer.start_span(name, set_span_in_context(self._span), start_time=start)

    def _close_phase(self) -> None:
        self._close_step()
        if self._phase is not None:
            self._phase.end()
            self._phase = None

    def _open_step(self, number: float) -> None:
        self._close_step()
        parent = set_span_in_context(self._phase) if self._phase else None
        self._step = self._tracer.start_span("adaptation.step", parent, start_time=self._boundary)
        self._step.set_attribute("adaptation.step", number)
        self._boundary = time_ns()
        if self._loss is not None:
            self._step.set_attribute("adaptation.loss", self._loss)

    def _note_loss(self, loss: float) -> None:
        # A model may report a step's loss before or after its number.
        if self._step is None or self._loss is not None:
            self._close_step()
            self._loss = loss
        else:
            self._step.set_attribute("adaptation.loss", loss)
            self._close_step()

    def _close_step(self) -> None:
        # The step ended when it was reported; it stayed open for its loss.
        if self._step is not None:
            self._step.end(self._boundary)
            self._step = self._loss = None


class PredictionTraces:
    """Begins the trace of each prediction.

    Attributes:
        enabled: whether traces are recorded at all.
        fastapi: for `FastAPI(telemetry=...)`, which makes the HTTP spans.
    """

    def __init__(self, names: TraceHeaders, provider: "TracerProvider | None" = None) -> None:
        self.enabled = provider is not None
        self._names = names
        self._provider = provider
        self._tracer = provider.get_tracer("server") if provider else None
        self.fastapi: TelemetryConfig = {
            "tracing": self.enabled,
            "metrics": False,
            "logs": False,
            "operation_spans": False,
            "auto_configure": False,
            "exclude": lambda scope: scope["path"] in _UNTRACED,
        }
        if provider is not None:
            self.fastapi["tracer_provider"] = provider
            propagate.set_global_textmap(names)  # FastAPI reads requests with this propagator

    @classmethod
    def from_environment(cls) -> "PredictionTraces":
        """Make the traces that the operator asked for.

        Raises:
            ConfigError: a variable has a value that is not allowed.
        """
        names = read_trace_headers(os.environ)
        if not are_traces_wanted(os.environ):
            if os.environ.get("COG_TRACE_CONFIGURED"):
                structlog.get_logger().info(
                    "no traces: disabled, or no OTEL_EXPORTER_OTLP_ENDPOINT"
                )
            return cls(names)
        return cls(names, open_provider())

    def begin(
        self, headers: Mapping[str, str], kind: str, prediction_id: str, context: Mapping[str, str]
    ) -> Trace | None:
        """Begin the trace of a prediction, below the HTTP span of the running request.

        Without recording there is no trace.

        Args:
            headers: of the request, by lower-case names; read even without a running request, so
                that a prediction found after a restart continues its trace with the earlier
                `Trace.headers`.
            kind: `predict` or `train`.
            prediction_id: of the prediction.
            context: of the request; its `trace.*` become tags of the span.
        """
        if self._tracer is None:
            return None
        in_request = get_current_span().get_span_context().is_valid
        name = _NAMES[kind]
        span = self._tracer.start_span(
            name,
            None if in_request else self._names.extract(headers, Context()),
            attributes={
                "cog.prediction.id": prediction_id,
                "cog.prediction.kind": kind,
                **_read_tags(context),
            },
        )
        return Trace(names=self._names, tracer=self._tracer, name=name, span=span)

    def copy(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request's trace, for requests on its behalf."""
        return self._names.copy(headers)

    def close(self) -> None:
        """Send the remaining spans, for at most five seconds. It blocks: call it from a thread."""
        if self._provider is not None:
            closing = threading.Thread(target=self._provider.shutdown, daemon=True)
            closing.start()
            closing.join(_FLUSH_SECONDS)


def _read_tags(context: Mapping[str, str]) -> dict[str, Any]:
    """Read the caller's tags, within Cog's bounds: a caller must not set the size of a span."""
    tags: dict[str, str] = {}
    for key in sorted(context):
        if (match := _TAG.fullmatch(key)) and len(tags) < _MAX_TAGS:
            value = context[key].encode(errors="replace")[:_MAX_VALUE_BYTES]
            tags[f"caller.{match[1]}"] = value.decode(errors="ignore")
    return tags
