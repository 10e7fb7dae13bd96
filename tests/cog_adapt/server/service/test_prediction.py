"""What is known of a prediction in flight, and how it looks to its client."""

import asyncio

import msgspec
import pytest

from cog_adapt.server.protocol import OWNER_KEY, Finished
from cog_adapt.server.service.prediction import (
    Prediction,
    PredictionSpec,
    digest_of,
    encode,
    new_id,
)
from tests.cog_adapt.server.service.harness import events_of


def seen(body):
    return msgspec.json.decode(encode(body))


def on_loop(test):
    """A prediction lives on an event loop."""

    def run():
        async def inside():
            request = PredictionSpec("p1", "predict", b'{"key":"s"}', b'{"key":"***"}', retries=2)
            test(Prediction(request, history=100))

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


def finish(prediction, status="succeeded", **more):
    prediction.finish(Finished("p1", status, **more))


def told(prediction):
    return [(event.name, msgspec.json.decode(event.data)) for event in events_of(prediction)]


@on_loop
def test_at_first_it_is_starting_and_empty(prediction):
    assert (prediction.status, prediction.is_final, prediction.logs) == ("starting", False, "")
    assert seen(prediction.answer()) == {
        "id": "p1",
        "status": "starting",
        "logs": "",
        "metrics": {},
    }


@on_loop
def test_its_answer_has_what_cogs_has(prediction):
    prediction.start()
    prediction.add_log("stdout", "a\n")
    prediction.add_log("stderr", "b\n")
    prediction.add_output(b'"x"')
    finish(prediction, predict_time=1.5)
    assert seen(prediction.answer()) == {
        "id": "p1",
        "status": "succeeded",
        "logs": "a\nb\n",
        "metrics": {"predict_time": 1.5},
        "output": "x",
    }
    assert prediction.is_final
    assert prediction.started_at <= prediction.completed_at


@pytest.mark.parametrize(
    ("chunks", "is_list", "output"),
    [([], False, None), ([], True, []), ([b"1"], True, [1]), ([b"1", b"[2]"], True, [1, [2]])],
)
def test_an_output_is_one_value_or_a_list_or_null(chunks, is_list, output):
    @on_loop
    def check(prediction):
        for chunk in chunks:
            prediction.add_output(chunk)
        finish(prediction, is_list=is_list)
        assert seen(prediction.answer())["output"] == output

    check()


@on_loop
def test_a_failure_has_its_error_and_logs_but_no_output(prediction):
    prediction.add_log("stdout", "a")
    prediction.add_output(b"1")
    finish(prediction, "failed", error="boom", is_list=True)
    body = seen(prediction.answer())
    assert (body["status"], body["error"], body["logs"]) == ("failed", "boom", "a")
    assert "output" not in body


@on_loop
def test_who_follows_a_failure_gets_what_was_put_out(prediction):
    prediction.add_output(b"1")
    finish(prediction, "canceled", is_list=True)
    assert seen(prediction.account())["output"] == [1]
    assert "error" not in prediction.account()


@on_loop
def test_while_it_runs_the_output_is_the_list_so_far_and_secrets_are_starred_out(prediction):
    prediction.start()
    assert "output" not in prediction.progress()
    prediction.add_output(b'"x"')
    assert seen(prediction.progress()) == {
        "id": "p1",
        "input": {"key": "***"},
        "logs": "",
        "metrics": {},
        "output": ["x"],
        "status": "processing",
    }


@on_loop
def test_everything_is_told_in_order(prediction):
    prediction.start()
    prediction.add_log("stderr", "é\n")
    prediction.add_output(b"1")
    prediction.add_output(b"2")
    prediction.add_metric("a.b", b"1.5", "replace")
    assert told(prediction) == [
        ("start", {"id": "p1", "status": "processing"}),
        ("log", {"source": "stderr", "data": "é\n"}),
        ("output", {"chunk": 1, "index": 0}),
        ("output", {"chunk": 2, "index": 1}),
        ("metric", {"name": "a.b", "value": 1.5, "mode": "replace"}),
    ]


def record(*metrics):
    found = {}

    @on_loop
    def collect(prediction):
        for name, value, mode in metrics:
            prediction.add_metric(name, value, mode)
        found.update(prediction.metrics)

    collect()
    return found


@pytest.mark.parametrize(
    ("metrics", "expected"),
    [
        ([("a", b"1", "replace"), ("a", b"2", "replace")], {"a": 2}),
        ([("a", b"1", "increment"), ("a", b"2.5", "increment")], {"a": 3.5}),
        ([("a", b"1", "append"), ("a", b'"x"', "append")], {"a": [1, "x"]}),
        ([("a", b"1", "replace"), ("a", b"2", "append")], {"a": [1, 2]}),
        ([("a", b"1", "replace"), ("a", b"null", "replace")], {}),
        ([("a.b", b"1", "replace"), ("a.c", b"2", "replace")], {"a": {"b": 1, "c": 2}}),
        ([("p", b"1", "replace"), ("p.q", b"1", "replace")], {"p": {"q": 1}}),
        ([("r.s", b"1", "replace"), ("r", b"1", "replace")], {"r": 1}),
        ([("a", b"null", "replace")], {}),
    ],
)
def test_metrics_are_recorded_as_in_cog(metrics, expected):
    assert record(*metrics) == expected


@on_loop
def test_what_a_crash_cut_short_begins_again_with_nothing(prediction):
    prediction.start()
    prediction.add_log("stdout", "a")
    prediction.add_output(b"1")
    prediction.add_metric("m", b"1", "replace")
    prediction.begin_again()
    assert (prediction.status, prediction.started_at, prediction.retries_left) == (
        "starting",
        None,
        1,
    )
    assert seen(prediction.account()) == {
        "id": "p1",
        "status": "starting",
        "logs": "",
        "metrics": {},
    }


def test_new_ids_are_in_cogs_style():
    assert new_id().startswith("pred_")
    int(new_id().removeprefix("pred_"), 16)


@on_loop
def test_its_close_lets_everybody_go_on_once(prediction):
    assert (prediction.done.done(), prediction.events.is_closed) == (False, False)
    for _ in range(2):
        prediction.close()
        assert prediction.done.result() is None
        assert prediction.events.is_closed


def test_json_has_sorted_keys_and_no_escapes():
    assert encode({"b": "é", "a": 1}) == '{"a":1,"b":"é"}'.encode()


def test_every_level_is_sorted():
    assert encode([{"b": {"d": 1, "c": 2}, "a": None}]) == b'[{"a":null,"b":{"c":2,"d":1}}]'


def test_the_digest_is_sha_256_in_hex():
    assert digest_of(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_its_owner_is_who_the_server_named():
    assert PredictionSpec("a", "predict", b"{}", b"{}").owner == ""
    assert PredictionSpec("a", "predict", b"{}", b"{}", {OWNER_KEY: "ann"}).owner == "ann"
