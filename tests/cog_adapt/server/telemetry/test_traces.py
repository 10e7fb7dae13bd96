import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from opentelemetry import propagate

from cog_adapt.server.errors import ConfigError
from cog_adapt.server.telemetry.traces import PredictionTraces
from tests.cog_adapt.server.telemetry.collector import read_attributes

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


@pytest.fixture(autouse=True)
def _variables(monkeypatch):
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "COG_TRACE_CONFIGURED"):
        monkeypatch.delenv(name, raising=False)
    before = propagate.get_global_textmap()
    yield
    propagate.set_global_textmap(before)


def run_one(traces, headers=None, context=None, status="succeeded", error=None):
    trace = traces.begin(headers or {}, "predict", "p1", context or {})
    if trace is None:
        return None
    trace.queued()
    trace.started()
    trace.step("adaptation.step", 1)
    trace.step("adaptation.step", 2)
    trace.ended(status, error)
    return trace


def serve(traces):
    app = FastAPI(telemetry=traces.fastapi)

    @app.put("/predictions/{id}")
    async def predict(id: str, request: Request):
        return run_one(traces, request.headers).headers()

    @app.get("/health-check")
    async def health():
        return {}

    return TestClient(app)


def test_a_request_is_one_trace_from_http_through_queue_and_run_to_the_steps(
    open_traces, collector
):
    traces = open_traces()
    answer = serve(traces).put("/predictions/p1", headers={"traceparent": PARENT})
    traces.close()
    http, prediction = collector["PUT /predictions/{id}"], collector["cog.prediction"]
    run = collector["cog.prediction.execute"]
    assert {span.trace_id.hex() for span in collector.spans} == {TRACE}
    assert http.parent_span_id.hex() == SPAN
    assert prediction.parent_span_id == http.span_id
    assert collector["cog.prediction.queue"].parent_span_id == prediction.span_id
    assert run.parent_span_id == prediction.span_id
    assert [step.parent_span_id for step in collector.all("adaptation.step")] == [run.span_id] * 2
    assert answer.json() == {"traceparent": f"00-{TRACE}-{prediction.span_id.hex()}-01"}


def test_phases_follow_one_another_and_steps_fill_the_run(open_traces, collector):
    traces = open_traces()
    run_one(traces)
    traces.close()
    queue, run = collector["cog.prediction.queue"], collector["cog.prediction.execute"]
    first, second = collector.all("adaptation.step")
    assert queue.end_time_unix_nano <= run.start_time_unix_nano
    assert run.start_time_unix_nano <= first.start_time_unix_nano
    assert first.start_time_unix_nano < first.end_time_unix_nano
    assert first.end_time_unix_nano == second.start_time_unix_nano
    assert second.end_time_unix_nano <= run.end_time_unix_nano


@pytest.mark.parametrize("loss_first", [True, False], ids=["loss first", "step first"])
def test_each_step_has_its_own_number_and_loss(open_traces, collector, loss_first):
    traces = open_traces()
    trace = traces.begin({}, "train", "t1", {})
    trace.started()
    for number, loss in ((1, 0.5), (2, 0.25)):
        reported = [("adaptation.step", number), ("adaptation.loss", loss)]
        for name, value in reversed(reported) if loss_first else reported:
            trace.step(name, value)
    trace.step("adaptation.step", 3)
    trace.ended("succeeded")
    traces.close()
    steps = [read_attributes(step) for step in collector.all("adaptation.step")]
    assert steps == [
        {"adaptation.step": 1, "adaptation.loss": 0.5},
        {"adaptation.step": 2, "adaptation.loss": 0.25},
        {"adaptation.step": 3},
    ]
    assert collector["cog.train.execute"].parent_span_id == collector["cog.train"].span_id


def test_a_prediction_span_tells_id_kind_status_error_and_the_callers_tags(open_traces, collector):
    traces = open_traces()
    context = {"trace.model.name": "a/b", "secret": "no", "trace.": "no", "trace.x y": "no"}
    run_one(traces, context=context, status="failed", error="boom " * 100)
    traces.close()
    span = collector["cog.prediction"]
    assert read_attributes(span) == {
        "cog.prediction.id": "p1",
        "cog.prediction.kind": "predict",
        "cog.prediction.status": "failed",
        "error.type": "prediction_failed",
        "caller.model.name": "a/b",
    }
    assert span.status.message == ("boom " * 100)[:256]
    assert span.status.code == 2


def test_tags_are_bounded_in_number_and_size(open_traces, collector):
    traces = open_traces()
    run_one(traces, context={f"trace.tag{n:02}": "ü" * 1000 for n in range(40)})
    traces.close()
    tags = [v for k, v in read_attributes(collector["cog.prediction"]).items() if "caller." in k]
    assert tags == ["ü" * 64] * 16


def test_what_was_canceled_in_the_queue_has_no_run_and_ends_once(open_traces, collector, caplog):
    traces = open_traces()
    trace = traces.begin({}, "predict", "p1", {})
    trace.queued()
    trace.ended("canceled")
    trace.ended("canceled")
    traces.close()
    assert sorted(span.name for span in collector.spans) == [
        "cog.prediction",
        "cog.prediction.queue",
    ]
    assert caplog.records == []


def test_a_prediction_found_after_a_restart_goes_on_in_its_trace(open_traces, collector):
    traces = open_traces()
    stored = traces.begin({"traceparent": PARENT}, "predict", "p1", {}).headers()
    run_one(traces, headers=stored)
    traces.close()
    assert collector["cog.prediction"].trace_id.hex() == TRACE


def test_health_checks_are_not_traced(open_traces, collector):
    traces = open_traces()
    serve(traces).get("/health-check")
    traces.close()
    assert collector.spans == []


def test_without_an_endpoint_headers_are_passed_on_as_they_came(monkeypatch):
    monkeypatch.setenv("COG_TRACE_HEADER", "X-Trace")
    monkeypatch.setenv("COG_TRACE_CONFIGURED", "1")
    traces = PredictionTraces.from_environment()
    headers = {"traceparent": "odd", "tracestate": "a=b", "x-trace": "1:2:0:1", "cookie": "no"}
    assert (traces.enabled, run_one(traces, headers=headers)) == (False, None)
    copied = traces.copy(headers)
    del headers["cookie"]
    assert copied == headers


@pytest.mark.parametrize(
    ("format", "value"), [("w3c", PARENT), ("jaeger", f"{TRACE}%3A{SPAN[2:]}:0:1")]
)
def test_the_operators_header_is_read_and_written(open_traces, collector, format, value):
    traces = open_traces(COG_TRACE_HEADER="X-Trace", COG_TRACE_HEADER_FORMAT=format)
    answer = serve(traces).put("/predictions/p1", headers={"x-trace": value}).json()
    traces.close()
    assert collector["PUT /predictions/{id}"].parent_span_id.hex() == SPAN
    span = collector["cog.prediction"].span_id.hex()
    assert answer["x-trace"] == (
        f"00-{TRACE}-{span}-01" if format == "w3c" else f"{TRACE}:{span}:0:01"
    )


def test_an_unsampled_parent_is_not_recorded_but_passed_on(open_traces, collector):
    traces = open_traces()
    trace = run_one(traces, headers={"traceparent": PARENT[:-1] + "0"})
    traces.close()
    assert collector.spans == []
    assert trace.headers()["traceparent"].startswith(f"00-{TRACE}-")
    assert trace.headers()["traceparent"].endswith("-00")


@pytest.mark.parametrize(
    ("variables", "headers", "count"),
    [
        ({"COG_TRACE_CONFIGURED": "true"}, {}, 0),
        ({"COG_TRACE_CONFIGURED": "true"}, {"traceparent": PARENT}, 1),
        ({"COG_TRACE_CONFIGURED": "1", "COG_TRACE_SAMPLER": "always_on"}, {}, 1),
        ({"COG_TRACE_SAMPLER": "always_on", "OTEL_TRACES_SAMPLER": "always_off"}, {}, 0),
        ({"COG_TRACE_SAMPLER": "traceidratio", "COG_TRACE_SAMPLER_ARG": "0"}, {}, 0),
        ({}, {}, 1),
        ({"COG_TRACE_ENABLED": "false"}, {"traceparent": PARENT}, 0),
        ({"OTEL_SDK_DISABLED": "true"}, {"traceparent": PARENT}, 0),
        ({"OTEL_TRACES_EXPORTER": "none"}, {"traceparent": PARENT}, 0),
    ],
)
def test_switches_and_samplers_are_cogs_and_opentelemetrys(
    open_traces, collector, variables, headers, count
):
    traces = open_traces(**variables)
    run_one(traces, headers=headers)
    traces.close()
    assert len(collector.all("cog.prediction")) == count


@pytest.mark.parametrize(
    "variables",
    [
        {"COG_TRACE_ENABLED": "maybe"},
        {"COG_TRACE_HEADER_FORMAT": "b3"},
        {"OTEL_TRACES_EXPORTER": "zipkin"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_a_value_that_is_not_allowed_is_named_at_the_start(open_traces, variables):
    with pytest.raises(ConfigError, match=list(variables.values())[-1]):
        open_traces(**variables)


def test_the_resource_names_the_service(open_traces, collector):
    traces = open_traces(OTEL_SERVICE_NAME="mine")
    run_one(traces)
    traces.close()
    assert read_attributes(collector.resources[0])["service.name"] == "mine"


def test_a_step_before_the_run_or_without_a_number_is_no_span(open_traces, collector):
    traces = open_traces()
    trace = traces.begin({}, "predict", "p1", {})
    trace.step("adaptation.step", 1)
    trace.started()
    trace.step("adaptation.step", "odd")
    trace.step("of.the.model", 2)
    trace.ended("succeeded", "no error")
    traces.close()
    assert collector.all("adaptation.step") == []
    assert collector["cog.prediction"].status.message == ""
