"""The destination of spans: OpenTelemetry's variables, and those that Cog writes into an image."""

import os
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.telemetry.propagation import TraceHeaders

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

_TRUE = frozenset({"1", "true", "yes"})
_FALSE = frozenset({"0", "false", "no"})
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def are_traces_wanted(environment: Mapping[str, str]) -> bool:
    """Return whether the operator asked for traces and named a receiver.

    Cog's images ask by `COG_TRACE_CONFIGURED`, others by an endpoint or `OTEL_TRACES_EXPORTER`.

    Raises:
        ConfigError: a switch is neither true nor false, or the exporter is unknown.
    """
    exporter = environment.get("OTEL_TRACES_EXPORTER", "")
    if exporter not in ("", "otlp", "console", "none"):
        raise ConfigError(
            f"OTEL_TRACES_EXPORTER is {exporter!r}; choose from otlp, console and none"
        )
    off = _is_on(environment, "OTEL_SDK_DISABLED", False) or exporter == "none"
    if off or not _is_on(environment, "COG_TRACE_ENABLED", True):
        return False
    return any(environment.get(name) for name in (*_ENDPOINTS, "OTEL_TRACES_EXPORTER"))


def read_trace_headers(environment: Mapping[str, str]) -> TraceHeaders:
    """Read the names of the headers that carry a trace.

    Raises:
        ConfigError: COG_TRACE_HEADER_FORMAT is unknown.
    """
    header = environment.get("COG_TRACE_HEADER", "").lower() or None
    match environment.get("COG_TRACE_HEADER_FORMAT", "") or "w3c":
        case "w3c":
            return TraceHeaders(header)
        case "jaeger":
            return TraceHeaders(header, "jaeger")
        case other:
            raise ConfigError(f"COG_TRACE_HEADER_FORMAT is {other!r}; choose w3c or jaeger")


def open_provider() -> "TracerProvider":
    """Make a provider that exports in batches, from a separate thread.

    The SDK reads the rest of `OTEL_*` (sampler, certificates, resource, batches) itself.

    Raises:
        ConfigError: the protocol is unknown.
    """
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    from cog_adapt.server.telemetry.queries import HiddenQueries

    exporter = _choose_exporter(os.environ)
    take_cogs_sampler(os.environ)
    name = os.environ.get("OTEL_SERVICE_NAME") or "cog"
    resource = Resource.create({"service.name": name, "cog.process.role": "parent"})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(HiddenQueries())
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def take_cogs_sampler(environment: MutableMapping[str, str]) -> None:
    """Set OpenTelemetry's sampler variables from Cog's, unless the operator set them.

    Cog's default starts no trace of its own; OpenTelemetry's does.
    """
    asked = _is_on(environment, "COG_TRACE_CONFIGURED", False)
    default = "parentbased_always_off" if asked else "parentbased_always_on"
    for name, otherwise in (("SAMPLER", default), ("SAMPLER_ARG", "1")):
        value = environment.get(f"OTEL_TRACES_{name}") or environment.get(f"COG_TRACE_{name}")
        environment[f"OTEL_TRACES_{name}"] = value or otherwise


def _is_on(environment: Mapping[str, str], name: str, default: bool) -> bool:
    value = environment.get(name, "").lower()
    if not value:
        return default
    if value not in _TRUE | _FALSE:
        raise ConfigError(f"{name} is {value!r}; choose true or false")
    return value in _TRUE


def _choose_exporter(environment: Mapping[str, str]) -> "SpanExporter":
    if environment.get("OTEL_TRACES_EXPORTER") == "console":
        import sys

        from opentelemetry.sdk.trace.export import ConsoleSpanExporter

        return ConsoleSpanExporter(out=sys.stderr)
    protocol = (
        environment.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
        or environment.get("OTEL_EXPORTER_OTLP_PROTOCOL")
        or "http/protobuf"
    )
    if protocol not in ("http", "http/protobuf"):
        raise ConfigError(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}; only http/protobuf is spoken here: "
            "set it, and the collector's HTTP endpoint (usually port 4318)"
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()
