from typing import Any

import pytest
from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    get_current_span,
    set_span_in_context,
)

from cog_adapt.server.telemetry.propagation import TraceHeaders

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


def read(headers, carrier):
    """Trace, span and flag of what was extracted; None without a trace."""
    found = get_current_span(headers.extract(carrier)).get_span_context()
    if not found.is_valid:
        return None
    return f"{found.trace_id:032x}", f"{found.span_id:016x}", int(found.trace_flags)


def write(headers, sampled=True):
    flags = TraceFlags(TraceFlags.SAMPLED if sampled else TraceFlags.DEFAULT)
    span = SpanContext(int(TRACE, 16), int(SPAN, 16), is_remote=False, trace_flags=flags)
    written: dict[Any, Any] = {}
    headers.inject(written, set_span_in_context(NonRecordingSpan(span), Context()))
    return written


def test_without_another_header_only_w3cs_count():
    headers = TraceHeaders()
    assert headers.fields == {"traceparent", "tracestate"}
    assert read(headers, {"traceparent": PARENT}) == (TRACE, SPAN, 1)
    assert read(headers, {"x-trace": PARENT}) is None
    assert write(headers) == {"traceparent": PARENT}


def test_the_state_of_a_trace_is_read_and_written():
    carrier = {"traceparent": PARENT, "tracestate": "a=b"}
    context = TraceHeaders("x-trace").extract(carrier)
    written: dict[Any, Any] = {}
    TraceHeaders("x-trace").inject(written, context)
    assert written == {**carrier, "x-trace": PARENT}


@pytest.mark.parametrize(
    ("form", "value"),
    [
        ("w3c", PARENT),
        ("jaeger", f"{TRACE}:{SPAN}:0:1"),
        ("jaeger", f"{TRACE}%3A{SPAN[2:]}%3A0%3A1"),
        ("jaeger", f"{TRACE.upper()}:{SPAN[2:]}:{SPAN}:01"),
    ],
)
def test_another_header_counts_where_w3cs_is_missing_or_wrong(form, value):
    headers = TraceHeaders("x-trace", form)
    assert headers.fields == {"traceparent", "tracestate", "x-trace"}
    assert read(headers, {"x-trace": value}) == (TRACE, SPAN, 1)
    assert read(headers, {"x-trace": value, "traceparent": "odd"}) == (TRACE, SPAN, 1)


def test_an_unsampled_trace_stays_unsampled():
    headers = TraceHeaders("x-trace", "jaeger")
    assert read(headers, {"x-trace": f"{TRACE}:{SPAN}:0:0"}) == (TRACE, SPAN, 0)
    assert write(headers, sampled=False)["x-trace"] == f"{TRACE}:{SPAN}:0:00"


def test_w3cs_header_wins():
    other = PARENT.replace("4bf9", "aaaa")
    for form in ("w3c", "jaeger"):
        headers = TraceHeaders("x-trace", form)
        assert read(headers, {"traceparent": PARENT, "x-trace": other}) == (TRACE, SPAN, 1)


@pytest.mark.parametrize("value", ["", "odd", "1:2:3", "x:y:z:1", "0:0:0:1", "1:2:0:xyz"])
def test_a_malformed_header_counts_as_none(value):
    headers = TraceHeaders("x-trace", "jaeger")
    assert headers.extract({"x-trace": value}) == {}


def test_the_standard_header_wins_over_the_operators():
    parent: Any = TraceHeaders("x-trace").extract(
        {"traceparent": PARENT, "x-trace": PARENT[:-1] + "0"}
    )
    (span,) = parent.values()
    assert span.get_span_context().trace_flags == TraceFlags.SAMPLED


def test_short_ids_of_jaeger_are_filled_with_zeros():
    found = read(TraceHeaders("x-trace", "jaeger"), {"x-trace": "1:2:0:1"})
    assert found == ("1".zfill(32), "2".zfill(16), 1)


@pytest.mark.parametrize(("form", "value"), [("w3c", PARENT), ("jaeger", f"{TRACE}:{SPAN}:0:01")])
def test_both_headers_are_written(form, value):
    assert write(TraceHeaders("x-trace", form)) == {"traceparent": PARENT, "x-trace": value}


def test_without_a_trace_nothing_is_written():
    written: dict[Any, Any] = {}
    TraceHeaders("x-trace", "jaeger").inject(written, Context())
    assert written == {}


def test_headers_are_passed_on_unread():
    carrier = {"traceparent": "odd", "x-trace": "odd", "cookie": "no"}
    assert TraceHeaders("x-trace").copy(carrier) == {"traceparent": "odd", "x-trace": "odd"}
    assert TraceHeaders().copy(carrier) == {"traceparent": "odd"}


def test_headers_are_a_value():
    assert TraceHeaders() == TraceHeaders(None, "w3c")
    frozen: Any = TraceHeaders()
    with pytest.raises(AttributeError):
        frozen.also = "x"


def test_a_trace_without_a_valid_context_writes_no_headers():
    context = set_span_in_context(NonRecordingSpan(SpanContext(0, 0, is_remote=False)))
    written: dict[Any, Any] = {}
    TraceHeaders("x-trace", "jaeger").inject(written, context)
    assert written == {}
