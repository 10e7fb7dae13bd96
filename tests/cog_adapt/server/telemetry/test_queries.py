"""The query of a request in its span."""

from typing import Any

from opentelemetry.sdk.trace import TracerProvider

from cog_adapt.server.telemetry.queries import HiddenQueries


def test_of_a_query_nothing_is_told_but_that_there_was_one():
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(HiddenQueries())
    tracer = provider.get_tracer("test")
    asked: Any = tracer.start_span("GET", attributes={"url.path": "/a", "url.query": "k=s3cret"})
    plain: Any = tracer.start_span("GET", attributes={"url.path": "/a"})
    assert asked.attributes == {"url.path": "/a", "url.query": "***"}
    assert plain.attributes == {"url.path": "/a"}
