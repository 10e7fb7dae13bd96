"""What metrics, traces and the log say of predictions."""

import asyncio
import logging
from typing import Any

import pytest
import structlog

from cog_adapt.server.protocol import Finished
from cog_adapt.server.service.observer import Observer
from cog_adapt.server.service.prediction import Prediction, PredictionSpec


class Numbers(Any):
    """Notes every call, as metrics and as a trace."""

    def __init__(self):
        self.calls = []

    @property
    def of_workers(self):
        return self

    def __getattr__(self, name):
        return lambda *values, **named: self.calls.append((name, *values, *named.values()))


class OneTrace(Numbers):
    """The trace of everything."""

    def begin(self, **named):
        self.calls.append(("begin", *named.values()))
        return self

    def headers(self):
        return {"traceparent": "x"}


def watched(scene, **request):
    async def story():
        metrics, trace = Numbers(), OneTrace()
        observer = Observer(metrics, trace)
        defaults = {"headers": {"a": "b"}, "context": {"trace.c": "d"}}
        prediction = Prediction(
            PredictionSpec("p", "train", b"{}", b"{}", **defaults | request), history=10
        )
        observer.accepted(prediction)
        scene(observer, prediction)
        return metrics.calls, trace.calls, observer

    return asyncio.run(story())


def test_a_prediction_is_counted_and_traced_from_its_acceptance_to_its_end():
    def scene(observer, prediction):
        prediction.start()
        observer.started(prediction)
        observer.on_metric(prediction, "adaptation.step", 3)
        assert observer.headers(prediction) == {"traceparent": "x"}
        prediction.finish(Finished("p", "failed", error="boom", predict_time=1.5))
        observer.finished(prediction)

    metrics, trace, observer = watched(scene)
    assert [call[:3] for call in metrics[:3]] == [
        ("accepted", "train"),
        ("started", "train", metrics[1][2]),
        ("metric", "adaptation.step", 3),
    ]
    assert 0 <= metrics[1][2] < 10
    name, kind, status, durations = metrics[3]
    assert (name, kind, status) == ("finished", "train", "failed")
    assert durations["run"] == 1.5
    assert 0 <= durations["total"] < 10
    assert trace == [
        ("begin", {"a": "b"}, "train", "p", {"trace.c": "d"}),
        ("queued",),
        ("started",),
        ("step", "adaptation.step", 3),
        ("ended", "failed", "boom"),
    ]


def test_what_never_ran_has_no_time_of_a_run():
    def scene(observer, prediction):
        prediction.finish(Finished("p", "canceled"))
        observer.finished(prediction)

    metrics, _, _ = watched(scene)
    assert list(metrics[-1][3]) == ["total"]


@pytest.mark.parametrize(
    ("status", "durable", "level", "has_line"),
    [
        ("succeeded", False, logging.INFO, False),
        ("succeeded", False, logging.DEBUG, True),
        ("succeeded", True, logging.INFO, True),
        ("failed", False, logging.INFO, True),
        ("canceled", False, logging.INFO, True),
    ],
)
def test_an_end_has_a_line_at_debug_or_unless_its_client_saw_it_succeed(
    monkeypatch, status, durable, level, has_line
):
    monkeypatch.setattr(logging.root, "isEnabledFor", lambda asked: asked >= level)

    def scene(observer, prediction):
        prediction.finish(Finished("p", status))
        observer.finished(prediction)

    with structlog.testing.capture_logs() as lines:
        watched(scene, durable=durable)
    assert [line["event"] for line in lines] == ["prediction ended"] * has_line
    if has_line:
        line = lines[0]
        assert (line["prediction_id"], line["kind"], line["status"]) == ("p", "train", status)
        assert line["seconds"] == round(line["seconds"], 3)


@pytest.mark.parametrize(
    ("report", "is_again", "calls"),
    [
        (None, False, []),
        (None, True, [("restarted", "1")]),
        (b'{"passed":true}', False, [("self_test", True, "1")]),
        (b'{"passed":"yes"}', True, [("restarted", "1"), ("self_test", False, "1")]),
    ],
)
def test_a_setup_is_counted_again_and_its_self_test_read(report, is_again, calls):
    metrics = Numbers()
    Observer(metrics, OneTrace()).set_up(report, is_again=is_again, worker="1")
    assert metrics.calls == calls


def test_what_went_wrong_is_counted():
    metrics = Numbers()
    observer = Observer(metrics, OneTrace())
    observer.rejected("busy")
    observer.crashed("1")
    observer.record_error()
    assert metrics.calls == [("rejected", "busy"), ("crashed", "1"), ("record_error",)]
