import math
from importlib.metadata import version

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from cog_adapt.server.protocol import Distribution, Gauges
from cog_adapt.server.shares.budget import Budget
from cog_adapt.server.telemetry.metrics import SECONDS, Metrics


@pytest.fixture
def metrics():
    return Metrics()


def read(metrics, name, **labels):
    return metrics.registry.get_sample_value(name, labels)


def test_a_prediction_is_counted_from_acceptance_to_its_final_status(metrics):
    metrics.accepted("predict")
    metrics.queued(3)
    metrics.started("predict", 0.02)
    metrics.running(1)
    metrics.finished("predict", "failed", {"run": 2.0, "total": 2.02})
    assert read(metrics, "cog_predictions_accepted_total", kind="predict") == 1
    assert read(metrics, "cog_queue_depth") == 3
    assert read(metrics, "cog_predictions_running") == 1
    finished = read(metrics, "cog_predictions_finished_total", kind="predict", status="failed")
    assert finished == 1
    for phase, seconds in {"queue": 0.02, "run": 2.0, "total": 2.02}.items():
        labels = {"kind": "predict", "phase": phase}
        assert read(metrics, "cog_prediction_duration_seconds_sum", **labels) == seconds
        assert read(metrics, "cog_prediction_duration_seconds_count", **labels) == 1


@pytest.mark.parametrize(
    ("seconds", "below", "within"), [(0.0005, None, "0.001"), (3599, "1800.0", "3600.0")]
)
def test_durations_from_a_millisecond_to_an_hour_have_a_bucket(metrics, seconds, below, within):
    metrics.finished("train", "succeeded", {"run": seconds})
    labels = {"kind": "train", "phase": "run"}
    name = "cog_prediction_duration_seconds_bucket"
    assert read(metrics, name, **labels, le=within) == 1
    assert below is None or read(metrics, name, **labels, le=below) == 0


def test_steps_and_the_last_loss_are_counted_and_other_metrics_are_not(metrics):
    before = metrics.expose()[0].count(b"\n")
    assert math.isnan(read(metrics, "cog_adaptation_loss"))
    for name, value in [
        ("adaptation.step", 1),
        ("adaptation.loss", 0.5),
        ("adaptation.step", 2),
        ("adaptation.loss", 0.25),
        ("adaptation.loss", "odd"),
        ("of.the.model", 7),
    ]:
        metrics.metric(name, value)
    assert read(metrics, "cog_adaptation_steps_total") == 2
    assert read(metrics, "cog_adaptation_loss") == 0.25
    assert metrics.expose()[0].count(b"\n") == before


def test_a_model_process_has_gauges_until_it_crashes(metrics):
    metrics.of_workers.measured(Gauges({"device_memory_bytes": 1e9, "no such-name": 1}))
    assert read(metrics, "cog_model_device_memory_bytes") == 1e9
    assert b"such" not in metrics.expose()[0]
    metrics.of_workers.measured(Gauges({"adapter_cache_entries": 2}))
    assert read(metrics, "cog_model_device_memory_bytes") is None
    metrics.of_workers.crashed()
    metrics.of_workers.restarted()
    assert read(metrics, "cog_model_adapter_cache_entries") is None
    assert read(metrics, "cog_model_process_crashes_total") == 1
    assert read(metrics, "cog_model_process_restarts_total") == 1


def test_a_self_test_that_never_ran_has_not_failed(metrics):
    assert math.isnan(read(metrics, "cog_self_test_passed"))
    metrics.of_workers.self_test(True)
    assert read(metrics, "cog_self_test_passed") == 1
    metrics.of_workers.self_test(False)
    assert read(metrics, "cog_self_test_passed") == 0
    metrics.of_workers.self_test(None)
    assert math.isnan(read(metrics, "cog_self_test_passed"))


def test_refusals_webhooks_and_lost_records_are_counted(metrics):
    metrics.rejected("queue_full")
    metrics.webhook("completed", "delivered")
    metrics.record_error()
    assert read(metrics, "cog_predictions_rejected_total", reason="queue_full") == 1
    assert read(metrics, "cog_webhooks_total", event="completed", outcome="delivered") == 1
    assert read(metrics, "cog_record_errors_total") == 1


@pytest.mark.parametrize(
    ("accept", "content_type", "parse"),
    [
        ("", "text/plain; version=0.0.4", read_text),
        ("text/html, */*", "text/plain; version=0.0.4", read_text),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
            "application/openmetrics-text; version=1.0.0",
            read_openmetrics,
        ),
    ],
)
def test_the_page_is_in_the_format_that_was_asked_for(metrics, accept, content_type, parse):
    metrics.of_workers.measured(Gauges({"device_memory_bytes": 5}))
    metrics.finished("predict", "succeeded", {"run": 1})
    body, header = metrics.expose(accept)
    assert b"_created" not in body
    families = {family.name: family for family in parse(body.decode())}
    assert header.startswith(content_type)
    assert families["cog_prediction_duration_seconds"].type == "histogram"
    assert families["cog_model_device_memory_bytes"].samples[0].value == 5
    assert families["process_resident_memory_bytes"].samples[0].value > 0
    assert all(family.documentation for family in families.values())


def test_two_servers_in_one_process_count_apart(metrics):
    metrics.accepted("predict")
    assert read(Metrics(), "cog_predictions_accepted_total", kind="predict") is None


PAGE = """\
counter cog_predictions_accepted: Accepted to run or wait.
counter cog_predictions_rejected: Refused, by reason.
counter cog_predictions_finished: Ended, by status.
histogram cog_prediction_duration_seconds: Time of a prediction in a phase: queue, run, total.
gauge cog_queue_depth: Predictions that wait for a slot.
gauge cog_predictions_running: Predictions that run.
counter cog_adaptation_steps: Gradient steps that were reported.
gauge cog_adaptation_loss: Loss last reported; NaN: none was.
counter cog_model_process_crashes: Unexpected ends of the process.
counter cog_model_process_restarts: Starts of it after a crash.
gauge cog_self_test_passed: 1: the last self-test passed, 0: it failed, NaN: none ran.
counter cog_webhooks: Webhook requests.
counter cog_record_errors: Records that were not written.
counter cog_http_requests: Answered requests.
histogram cog_http_request_duration_seconds: \
Time from a request's headers to the last byte of its answer.
gauge cog_model_device_memory_bytes: Memory that the model process holds on its device.
gauge cog_model_process_memory_bytes: Resident memory of the model process.
gauge cog_budget_limit_bytes: Bytes allowed.
gauge cog_budget_used_bytes: Bytes held.
gauge cog_budget_owner_limit_bytes: Bytes allowed to one owner.
gauge cog_budget_largest_owner_bytes: Bytes held for the owner with most.
gauge cog_model_adapter_cache_entries: Adapters held ready by the model process.
gauge cog_model_mine: A number reported by the model process.
gauge cog_build_info: Versions.
"""


def test_each_metric_has_its_name_type_and_words(metrics):
    names = ("device_memory_bytes", "process_memory_bytes", "adapter_cache_entries", "mine")
    metrics.of_workers.measured(Gauges(dict.fromkeys(names, 1)))
    families = [each for each in metrics.registry.collect() if each.name.startswith("cog_")]
    found = [f"{each.type} {each.name}: {each.documentation}" for each in families]
    assert sorted(found) == sorted(PAGE.splitlines())


def test_requests_are_counted_by_method_route_and_status(metrics):
    metrics.http("POST", "/predictions", 201, 0.25)
    labels = {"method": "POST", "route": "/predictions"}
    assert read(metrics, "cog_http_requests_total", **labels, status="201") == 1
    name = "cog_http_request_duration_seconds"
    assert read(metrics, f"{name}_sum", **labels) == 0.25
    assert read(metrics, f"{name}_bucket", **labels, le="0.25") == 1
    assert read(metrics, f"{name}_bucket", **labels, le="0.1") == 0


def test_buckets_rise_from_a_millisecond_to_an_hour():
    # fmt: off
    assert SECONDS == (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                       1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
    # fmt: on


def test_a_budget_is_shown_as_it_is_when_it_is_asked_for(metrics):
    budget = Budget("events", "EVENT_BYTES", 100, 0.5)
    metrics.watch(budget)
    for owner, size in (("ann", 30), ("bob", 20), ("", 50)):
        budget.take(owner, size)
    shown = {"used": 100, "limit": 100, "largest_owner": 30, "owner_limit": 50}
    for name, value in shown.items():
        assert read(metrics, f"cog_budget_{name}_bytes", budget="events") == value
    assert "ann" not in metrics.expose()[0].decode()


def test_the_only_process_has_no_label_and_each_of_several_has_its_name(metrics):
    metrics.of_workers.crashed()
    assert read(metrics, "cog_model_process_crashes_total") == 1
    metrics.of_workers.name(["0", "1", "train"])
    metrics.of_workers.crashed("1")
    metrics.of_workers.restarted("train")
    metrics.of_workers.self_test(True, "0")
    for worker, bytes_held in (("0", 5), ("1", 7)):
        metrics.of_workers.measured(Gauges({"device_memory_bytes": bytes_held}), worker)
    text = metrics.expose()[0].decode()
    shown = [line for line in text.splitlines() if line.startswith(("cog_model", "cog_self"))]
    assert shown == [
        'cog_model_device_memory_bytes{worker="0"} 5.0',
        'cog_model_device_memory_bytes{worker="1"} 7.0',
        'cog_model_process_crashes_total{worker="0"} 0.0',
        'cog_model_process_crashes_total{worker="1"} 1.0',
        'cog_model_process_crashes_total{worker="train"} 0.0',
        'cog_model_process_restarts_total{worker="0"} 0.0',
        'cog_model_process_restarts_total{worker="1"} 0.0',
        'cog_model_process_restarts_total{worker="train"} 1.0',
        'cog_self_test_passed{worker="0"} 1.0',
        'cog_self_test_passed{worker="1"} NaN',
        'cog_self_test_passed{worker="train"} NaN',
    ]
    metrics.of_workers.crashed("0")
    assert read(metrics, "cog_model_device_memory_bytes", worker="0") is None
    assert read(metrics, "cog_model_device_memory_bytes", worker="1") == 7


@pytest.mark.parametrize("worker", ["", "cuda:1"])
def test_histograms_of_a_model_process_are_shown_whole(metrics, worker):
    labels = {"worker": worker} if worker else {}
    found = [Distribution([0.1, 1.0], [5, 0, 2], 3.5)]
    by_method = [Distribution([1.0], [1, n], 0.5, {"method": m}) for n, m in enumerate("ab")]
    shown = Gauges({}, {"tick_seconds": found, "sizes": by_method})
    metrics.of_workers.measured(shown, worker)
    for number, method in enumerate("ab"):
        asked = {"method": method, **labels}
        assert read(metrics, "cog_model_sizes_count", **asked) == 1 + number
    for bound, count in (("0.1", 5), ("1.0", 5), ("+Inf", 7)):
        assert read(metrics, "cog_model_tick_seconds_bucket", le=bound, **labels) == count
    assert read(metrics, "cog_model_tick_seconds_count", **labels) == 7
    assert read(metrics, "cog_model_tick_seconds_sum", **labels) == 3.5
    metrics.of_workers.crashed(worker)
    assert read(metrics, "cog_model_tick_seconds_count", **labels) is None


def test_the_build_and_the_model_are_labels(metrics):
    (build,) = [each for each in metrics.registry.collect() if each.name == "cog_build_info"]
    assert build.samples[0].labels["cog"] == version("cog")
    info = {"task": "Text", "base": "b" * 16, "device": "cuda:0", "precision": "bf16", "x": "y"}
    metrics.of_workers.measured(Gauges({}, {}, info))
    del info["x"]
    assert read(metrics, "cog_model_info", **info) == 1
