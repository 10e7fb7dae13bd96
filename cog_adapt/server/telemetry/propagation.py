"""The headers that carry a trace: W3C's, and one more that the operator may name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import (
    CarrierT,
    Getter,
    Setter,
    TextMapPropagator,
    default_getter,
    default_setter,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_W3C = TraceContextTextMapPropagator()


@dataclass(frozen=True)
class TraceHeaders(TextMapPropagator):
    """W3C `traceparent` and `tracestate`, and `also`, which is read if those are missing.

    Attributes:
        also: name of one more header; None: none.
        format: of that header.
    """

    also: str | None = None
    format: Literal["w3c", "jaeger"] = "w3c"

    @property
    def fields(self) -> set[str]:
        """The headers' names."""
        return _W3C.fields | ({self.also} if self.also else set())

    def extract(
        self,
        carrier: CarrierT,
        context: Context | None = None,
        getter: Getter[CarrierT] = default_getter,
    ) -> Context:
        """Read the context in a request's headers; malformed headers count as missing."""
        found = _W3C.extract(carrier, context, getter)
        if self.also is None or trace.get_current_span(found).get_span_context().is_valid:
            return found
        value = next(iter(getter.get(carrier, self.also) or []), "")
        parent = _from_jaeger(value) if self.format == "jaeger" else value
        return _W3C.extract({"traceparent": parent}, context)

    def inject(
        self,
        carrier: CarrierT,
        context: Context | None = None,
        setter: Setter[CarrierT] = default_setter,
    ) -> None:
        """Write the context's headers."""
        written: dict[str, str] = {}
        _W3C.inject(written, context)
        if self.also and (parent := written.get("traceparent")):
            written[self.also] = _to_jaeger(parent) if self.format == "jaeger" else parent
        for name, value in written.items():
            setter.set(carrier, name, value)

    def copy(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request that belong to its trace, unread."""
        return {name: headers[name] for name in self.fields if name in headers}


def _from_jaeger(value: str) -> str:
    # trace:span:parent:flags, in hexadecimal with leading zeros left out, maybe percent-encoded
    parts = unquote(value).split(":")
    if len(parts) != 4:
        return ""
    trace_id, span_id, _parent, flags = parts
    return f"00-{trace_id:0>32}-{span_id:0>16}-{flags:0>2}".lower()


def _to_jaeger(traceparent: str) -> str:
    _version, trace_id, span_id, flags = traceparent.split("-")[:4]
    return f"{trace_id}:{span_id}:0:{flags}"
