"""Section 7: logs, metrics and context of a prediction."""

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.waiting import wait_for


def test_stdout_and_stderr_in_order(actions):
    assert actions.predict(action="log", text="last")["logs"] == "one\ntwo\nlast\n"


@pytest.mark.parametrize(
    "text", ["a\r\nb\rc\n", "é\x00\n", "\n\n", "[coglet] x\n", "x" * 10**6 + "\n"]
)
def test_logs_are_what_was_printed(actions, text):
    assert actions.predict(action="print_all", text=text)["logs"] == text


def test_warnings_are_logs(actions):
    assert "UserWarning: careful" in actions.predict(action="warn", text="careful")["logs"]


def test_a_last_line_without_newline(actions):
    first = actions.predict(action="print_all", text="no newline")["logs"]
    second = actions.predict(action="print_all", text="next\n")["logs"]
    kept = expect(
        actions,
        coglet=("", "no newlinenext\n"),
        mirror=("no newline", "next\n"),
        because="last-line",
    )
    assert (first, second.removesuffix("\n") + "\n") == kept


def test_what_children_print_is_in_the_servers_log(actions):
    actions.predict(action="print_all", text="\n")  # ends what coglet has kept of another
    assert actions.predict(action="child", text="from a child")["logs"] == ""
    assert wait_for(lambda: "from a child" in actions.text() or None)


def test_what_a_run_prints_is_in_no_other_answer(actions):
    actions.predict(action="log", text="mine")
    assert actions.predict()["logs"] == ""


def test_metrics(actions):
    metrics = actions.predict(action="metrics")["metrics"]
    assert metrics.pop("predict_time") > 0
    assert metrics == {
        "score": 0.5,
        "count": 3,
        "steps": [1, 2],
        "name": "x",
        "flag": True,
        "a": {"b": {"c": 1}},
        "scope": 7,
        "other": [1, 2],
    }


def test_metrics_are_of_one_prediction(actions):
    actions.predict(action="metrics")
    assert actions.predict()["metrics"].keys() == {"predict_time"}


def test_metrics_are_kept_on_failure(actions):
    body = actions.predict(action="metric_then_fail", text="x")
    assert (body["status"], body["metrics"]["score"]) == ("failed", 0.5)


def record(server, *calls):
    body = server.predict(action="metric", text=repr(list(calls)))
    metrics = body["metrics"]
    metrics.pop("predict_time")
    return body["output"], metrics


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("predict_time", "'predict_time' is reserved by the runtime"),
        ("cog.x", "the 'cog.' prefix is reserved for system metrics"),
        ("a.b.c.d.e", "metric name must have at most 4 dot-separated segments (got 5)"),
        ("a" * 129, "metric name must be 128 characters or fewer (got 129 characters)"),
        ("1a", "metric name segment '1a' must start with a letter"),
        ("_a", "metric name segment '_a' must start with a letter"),
        ("é", "metric name segment 'é' must start with a letter"),
        ("a_", "metric name segment 'a_' must end with a letter or digit"),
        ("a__b", "metric name segment 'a__b' must not contain consecutive underscores"),
        ("a-b", "metric name segment 'a-b' contains invalid character '-'"),
        ("a b", "metric name segment 'a b' contains invalid character ' '"),
        ("", "metric name must not be empty"),
        ("a..b", "metric name must not contain empty segments (consecutive dots)"),
        ("a.", "metric name must not end with a dot"),
        (".invalid", "metric name must not start with a dot"),
        (".", "metric name must not start with a dot"),
        ("..a", "metric name must not start with a dot"),
        (".a.b.c.d", "metric name must have at most 4 dot-separated segments (got 5)"),
        ("a.b.c.d.", "metric name must have at most 4 dot-separated segments (got 5)"),
    ],
)
def test_names_that_no_metric_may_have(actions, name, message):
    assert record(actions, (name, 1)) == ([["ValueError", message]], {})


@pytest.mark.parametrize("name", ["a", "A1_b", "cog", "a.predict_time", "a" * 128, "a.b.c.d"])
def test_names_that_metrics_may_have(actions, name):
    raised, metrics = record(actions, (name, 1))
    assert raised == [None]
    for part in name.split("."):
        metrics = metrics[part]
    assert metrics == 1


@pytest.mark.parametrize(
    ("calls", "message"),
    [
        ([("a", {1})], "Unsupported metric value type: set"),
        ([("a", b"x")], "Unsupported metric value type: bytes"),
        ([("a", 1), ("a", "s")], "Metric 'a' has type int, cannot set to str"),
        ([("a", 1), ("a", 2.5)], "Metric 'a' has type int, cannot set to float"),
        ([("a", True), ("a", 1)], "Metric 'a' has type bool, cannot set to int"),
        ([("a", "s", "incr")], "Increment mode requires int or float, got str"),
        ([("a", 1, "sum")], "Invalid metric mode: 'sum'. Expected 'replace', 'incr', or 'append'."),
        ([("a", 1, "append"), ("a", "s", "append")], "Metric 'a' has type int, cannot set to str"),
    ],
)
def test_values_that_no_metric_may_have(actions, calls, message):
    raised, metrics = record(actions, *calls)
    kind, text = raised[-1]
    assert kind == "TypeError"
    assert text.startswith(message)
    assert list(metrics) == ["a"][: len(calls) - 1]


@pytest.mark.parametrize(
    ("calls", "metrics"),
    [
        ([("a", 1), ("a", 2)], {"a": 2}),
        ([("a", 1, "incr"), ("a", 2, "incr")], {"a": 3}),
        ([("a", 1.5, "incr"), ("a", 2.5, "incr")], {"a": 4.0}),
        ([("a", "x", "append"), ("a", "y", "append")], {"a": ["x", "y"]}),
        ([("a", 1), ("a", 2, "append")], {"a": [1, 2]}),
        ([("a", {"b": [None]})], {"a": {"b": [None]}}),
        ([("a.b", 1), ("a.c", 2)], {"a": {"b": 1, "c": 2}}),
        ([("a", 1), ("a.b", 1)], {"a": {"b": 1}}),
        ([("a.b", 1), ("a", 1)], {"a": 1}),
    ],
)
def test_modes_and_nesting(actions, calls, metrics):
    raised, found = record(actions, *calls)
    assert raised == [None] * len(calls)
    assert found == metrics


def test_none_as_a_metric(actions):
    raised, metrics = record(actions, ("a", 1), ("a", None))
    if follows_cog(actions, because="metric-none"):
        assert raised[1][0] == "TypeError"
        assert metrics == {"a": 1}
    else:
        assert (raised, metrics) == ([None, None], {})


def test_context(actions):
    body = {"input": {"action": "context"}, "context": {"a": "1", "b": "é"}}
    assert actions.post("/predictions", body).json()["output"] == {"a": "1", "b": "é"}


def test_no_context(actions):
    assert actions.output(action="context") == {}


def test_run_is_not_on_the_main_thread(actions):
    assert actions.output(action="threads") is False
