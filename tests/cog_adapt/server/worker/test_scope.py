"""The rules of metrics; the texts are coglet's, as observed."""

import pytest

from cog_adapt.server.protocol import Metric, Run
from cog_adapt.server.worker.active import ActivePrediction
from cog_adapt.server.worker.scope import Scope, check_name


@pytest.fixture
def sent():
    return []


@pytest.fixture
def scope(sent):
    return Scope(ActivePrediction(Run("p", b"{}", {"k": "v"}), sent.append, sent.append))


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("1a", "metric name segment '1a' must start with a letter"),
        ("é", "metric name segment 'é' must start with a letter"),
        ("_a", "metric name segment '_a' must start with a letter"),
        ("a__b", "metric name segment 'a__b' must not contain consecutive underscores"),
        ("a_", "metric name segment 'a_' must end with a letter or digit"),
        ("a-b", "metric name segment 'a-b' contains invalid character '-'"),
        ("a.b.c.d.e", "metric name must have at most 4 dot-separated segments (got 5)"),
        ("x" * 129, "metric name must be 128 characters or fewer (got 129 characters)"),
        ("predict_time", "'predict_time' is reserved by the runtime"),
        ("cog.x", "the 'cog.' prefix is reserved for system metrics"),
        ("a..b", "metric name must not contain empty segments (consecutive dots)"),
        ("a.", "metric name must not end with a dot"),
        ("", "metric name must not be empty"),
    ],
)
def test_a_name_that_cog_refuses_is_refused(name, problem):
    with pytest.raises(ValueError, match="metric|reserved") as caught:
        check_name(name)
    assert str(caught.value) == problem


@pytest.mark.parametrize("name", ["a", "A1_b.c", "a.b.c.d", "x" * 128, "cog"])
def test_a_name_that_cog_takes_is_taken(name):
    check_name(name)


@pytest.mark.parametrize(
    ("value", "mode", "problem"),
    [
        ("x", None, "Metric 'n' has type int, cannot set to str without deleting first"),
        (True, None, "Metric 'n' has type int, cannot set to bool without deleting first"),
        (1.5, "incr", "Metric 'n' has type int, cannot set to float without deleting first"),
        (1, "xx", "Invalid metric mode: 'xx'. Expected 'replace', 'incr', or 'append'."),
        ("x", "incr", "Increment mode requires int or float, got str"),
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
