"""A collector, and traces that are sent to it."""

import pytest

from cog_adapt.server.telemetry.traces import PredictionTraces
from tests.cog_adapt.server.telemetry.collector import open_collector


@pytest.fixture
def collector():
    with open_collector() as collector:
        yield collector


@pytest.fixture
def open_traces(monkeypatch, collector):
    opened = []

    def open_them(**variables):
        both = {"OTEL_TRACES_SAMPLER": "", "OTEL_TRACES_SAMPLER_ARG": ""}  # set by what is opened
        for name, value in (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint} | both | variables
        ).items():
            monkeypatch.setenv(name, value)
        opened.append(PredictionTraces.from_environment())
        return opened[-1]

    yield open_them
    for traces in opened:
        traces.close()
