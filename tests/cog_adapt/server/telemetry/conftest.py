"""A collector, and traces that are sent to it."""

import pytest

from cog_adapt.server.telemetry.traces import Traces
from tests.cog_adapt.server.telemetry.collector import open_collector


@pytest.fixture
def collector():
    with open_collector() as collector:
        yield collector


@pytest.fixture
def open_traces(monkeypatch, collector):
    opened = []

    def open_them(**variables):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint)  # the SDK's own
        opened.append(
            Traces.from_environment(
                {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, **variables}
            )
        )
        return opened[-1]

    yield open_them
    for traces in opened:
        traces.close()
