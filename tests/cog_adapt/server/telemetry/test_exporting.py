import sys
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import sampling
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.telemetry.exporting import (
    are_traces_wanted,
    open_provider,
    read_trace_headers,
    take_cogs_sampler,
)
from cog_adapt.server.telemetry.propagation import TraceHeaders
from cog_adapt.server.telemetry.queries import HiddenQueries

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"COG_TRACE_CONFIGURED": "true"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, True),
        ({**ENDPOINT, "COG_TRACE_ENABLED": "false"}, False),
        ({**ENDPOINT, "COG_TRACE_ENABLED": ""}, True),
    ]
    + [({**ENDPOINT, "COG_TRACE_ENABLED": each}, True) for each in ("1", "true", "YES")]
    + [({**ENDPOINT, "COG_TRACE_ENABLED": each}, False) for each in ("0", "FALSE", "no")],
)
def test_traces_are_wanted_where_an_endpoint_or_exporter_is_named(environment, wanted):
    assert are_traces_wanted(environment) is wanted


@pytest.mark.parametrize(
    ("name", "value", "choices"),
    [
        ("OTEL_TRACES_EXPORTER", "zipkin", "otlp, console and none"),
        ("OTEL_SDK_DISABLED", "maybe", "true or false"),
        ("COG_TRACE_ENABLED", "maybe", "true or false"),
    ],
)
def test_a_switch_that_is_none_is_named(name, value, choices):
    with pytest.raises(ConfigError, match=f"{name} is '{value}'; choose .*{choices}"):
        are_traces_wanted({**ENDPOINT, name: value})


@pytest.mark.parametrize(
    ("environment", "headers"),
    [
        ({}, TraceHeaders(None, "w3c")),
        ({"COG_TRACE_HEADER": "X-Trace"}, TraceHeaders("x-trace", "w3c")),
        ({"COG_TRACE_HEADER_FORMAT": "w3c"}, TraceHeaders(None, "w3c")),
        (
            {"COG_TRACE_HEADER": "Uber-Id", "COG_TRACE_HEADER_FORMAT": "jaeger"},
            TraceHeaders("uber-id", "jaeger"),
        ),
    ],
)
def test_the_operator_may_name_one_more_header(environment, headers):
    assert read_trace_headers(environment) == headers


def test_an_unknown_format_is_named():
    with pytest.raises(ConfigError, match="COG_TRACE_HEADER_FORMAT is 'b3'; choose w3c or jaeger"):
        read_trace_headers({"COG_TRACE_HEADER_FORMAT": "b3"})


@pytest.fixture
def open_it(monkeypatch):
    opened = []

    def open_it(**environment):
        both = {"OTEL_TRACES_SAMPLER": "", "OTEL_TRACES_SAMPLER_ARG": ""}  # set by what is opened
        for name, value in (ENDPOINT | both | environment).items():
            monkeypatch.setenv(name, value)
        opened.append(open_provider())
        return opened[-1]

    yield open_it
    for provider in opened:
        provider.shutdown()


def exporter_of(provider):
    hiding, processor = provider._active_span_processor._span_processors
    assert isinstance(hiding, HiddenQueries)
    assert isinstance(processor, BatchSpanProcessor)
    return processor._batch_processor._exporter


def test_the_service_is_named_as_cogs_unless_the_operator_says_otherwise(open_it):
    attributes = open_it().resource.attributes
    assert (attributes["service.name"], attributes["cog.process.role"]) == ("cog", "parent")
    assert open_it(OTEL_SERVICE_NAME="mine").resource.attributes["service.name"] == "mine"


def test_the_server_ends_the_provider_itself(open_it):
    assert open_it()._atexit_handler is None


def test_spans_go_to_a_collector_by_http_or_to_stderr(open_it):
    assert isinstance(exporter_of(open_it()), OTLPSpanExporter)
    for name in ("OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"):
        for protocol in ("http", "http/protobuf"):
            assert isinstance(exporter_of(open_it(**{name: protocol})), OTLPSpanExporter)
    console = exporter_of(open_it(OTEL_TRACES_EXPORTER="console"))
    assert isinstance(console, ConsoleSpanExporter)
    assert console.out is sys.stderr


def test_another_protocol_is_refused_with_the_remedy(open_it):
    with pytest.raises(ConfigError, match=r"is 'grpc'; only http/protobuf .*port 4318"):
        open_it(OTEL_EXPORTER_OTLP_PROTOCOL="grpc")
    with pytest.raises(ConfigError, match="'grpc'"):
        open_it(OTEL_EXPORTER_OTLP_PROTOCOL="http", OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="grpc")


@pytest.mark.parametrize(
    ("environment", "sampler"),
    [
        ({}, sampling.DEFAULT_ON),
        ({"COG_TRACE_CONFIGURED": "false"}, sampling.DEFAULT_ON),
        ({"COG_TRACE_CONFIGURED": "true"}, sampling.DEFAULT_OFF),
        ({"COG_TRACE_SAMPLER": "always_on"}, sampling.ALWAYS_ON),
        ({"COG_TRACE_SAMPLER": "always_off"}, sampling.ALWAYS_OFF),
        ({"COG_TRACE_SAMPLER": "parentbased_always_on"}, sampling.DEFAULT_ON),
        ({"COG_TRACE_SAMPLER": "parentbased_always_off"}, sampling.DEFAULT_OFF),
        (
            {"OTEL_TRACES_SAMPLER": "always_off", "COG_TRACE_SAMPLER": "always_on"},
            sampling.ALWAYS_OFF,
        ),
    ],
)
def test_the_sampler_is_the_operators_else_cogs_else_opentelemetrys(open_it, environment, sampler):
    assert open_it(**environment).sampler is sampler


@pytest.mark.parametrize(
    ("argument", "rate"),
    [
        ({}, 1.0),
        ({"COG_TRACE_SAMPLER_ARG": "0.25"}, 0.25),
        ({"COG_TRACE_SAMPLER_ARG": "0"}, 0.0),
        ({"COG_TRACE_SAMPLER_ARG": "1"}, 1.0),
        ({"OTEL_TRACES_SAMPLER_ARG": "0.5", "COG_TRACE_SAMPLER_ARG": "0.25"}, 0.5),
    ],
)
def test_a_share_of_traces_may_be_taken(open_it, argument, rate):
    sampler = open_it(COG_TRACE_SAMPLER="traceidratio", **argument).sampler
    assert isinstance(sampler, sampling.TraceIdRatioBased)
    assert sampler.rate == rate
    sampler = open_it(COG_TRACE_SAMPLER="parentbased_traceidratio", **argument).sampler
    assert isinstance(sampler, sampling.ParentBasedTraceIdRatio)
    root: Any = sampler._root
    assert root.rate == rate


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"COG_TRACE_SAMPLER": "sometimes"}, "Couldn't recognize sampler sometimes."),
        (
            {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "much"},
            "Could not convert TRACES_SAMPLER_ARG to float. Using default rate 1.0.",
        ),
    ],
)
def test_what_is_no_sampler_is_logged_and_every_trace_taken(open_it, caplog, environment, said):
    sampler = open_it(**environment).sampler
    assert said in caplog.messages
    assert sampler is sampling.DEFAULT_ON or sampler.rate == 1.0


def test_the_operators_sampler_stays_and_cogs_is_taken_with_its_share():
    operators = {"OTEL_TRACES_SAMPLER": "always_off", "OTEL_TRACES_SAMPLER_ARG": "0.5"}
    environment = dict(operators)
    take_cogs_sampler(environment)
    assert environment == operators
    environment = {"COG_TRACE_SAMPLER": "traceidratio", "COG_TRACE_SAMPLER_ARG": "0.25"}
    take_cogs_sampler(environment)
    assert environment["OTEL_TRACES_SAMPLER"] == "traceidratio"
    assert environment["OTEL_TRACES_SAMPLER_ARG"] == "0.25"
