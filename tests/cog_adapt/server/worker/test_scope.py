"""The rules of metrics; the texts are coglet's, as observed."""

from typing import Any

import pytest

from cog_adapt.server.protocol import Metric, Run
from cog_adapt.server.worker.active import ActivePrediction
from cog_adapt.server.worker.scope import Scope


@pytest.fixture
def sent():
    return []


@pytest.fixture
def scope(sent):
    return Scope(ActivePrediction(Run("p", b"{}", {"k": "v"}), sent.append))


@pytest.mark.parametrize(
    ("value", "mode", "problem"),
    [
        (True, None, "Metric 'n' has type int, cannot set to bool without deleting first"),
        (1.5, "incr", "Metric 'n' has type int, cannot set to float without deleting first"),
        (
            (1,),
            None,
            "Unsupported metric value type: tuple. Expected bool, int, float, str, list, or dict.",
        ),
    ],
)
def test_a_value_that_cog_refuses_is_refused(scope, sent, value, mode, problem):
    scope.record_metric("n", 1)
    sent.clear()
    with pytest.raises(TypeError) as caught:
        scope.record_metric("n", value, mode)
    assert str(caught.value) == problem
    assert not sent


@pytest.mark.parametrize("delete", ["del", "delete", "None"])
def test_a_deleted_metric_may_come_back_with_another_type(scope, sent, delete):
    scope.metrics["n"] = 1
    if delete == "del":
        del scope.metrics["n"]
    elif delete == "delete":
        scope.metrics.delete("n")
    else:
        scope.record_metric("n", None)
    scope.metrics["n"] = "x"
    assert sent == [
        Metric("p", "n", b"1"),
        Metric("p", "n", b"null"),
        Metric("p", "n", b'"x"'),
    ]


def test_outside_a_prediction_nothing_happens():
    scope = Scope(None)
    scope.record_metric("not a name!", object())
    scope.metrics.delete("a")
    assert scope.context == {}


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_lacks_is_not_recorded_and_fixes_no_type(scope, sent, value):
    scope.record_metric("n", value)
    scope.record_metric("n", 1)
    assert sent == [Metric("p", "n", b"1")]


def test_a_value_that_is_no_json_is_refused(scope, sent):
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(TypeError, match="Unsupported metric value: Circular reference"):
        scope.record_metric("n", ring)
    assert not sent


def test_nothing_is_recorded_once_the_prediction_has_ended(sent):
    prediction = ActivePrediction(Run("p", b"{}", {}), sent.append)
    scope = Scope(prediction)
    prediction.has_ended = True
    scope.record_metric("n", 1)
    del scope.metrics["n"]
    assert not sent


def test_a_name_is_a_text(scope):
    with pytest.raises(TypeError) as caught:
        scope.record_metric(1, 1)
    assert str(caught.value) == "argument 'key': 'int' object cannot be cast as 'str'"
    with pytest.raises(ValueError, match="must not be empty"):
        scope.metrics.delete("")


def test_the_context_is_the_requests_and_a_copy(sent):
    run = Run("p", b"{}", {"k": "v"})
    scope = Scope(ActivePrediction(run, sent.append))
    assert scope.context == {"k": "v"}
    scope.context["k"] = "w"
    assert run.context == {"k": "v"}


def test_it_is_shown_with_the_number_of_its_metrics(scope):
    scope.record_metric("n", 1)
    assert repr(scope) == "Scope(MetricRecorder(keys=1))"
    assert repr(Scope(None)) == "Scope(MetricRecorder(keys=0))"
