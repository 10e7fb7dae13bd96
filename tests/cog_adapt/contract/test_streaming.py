"""Section 6: generators as JSON, server-sent events, replay, joining and leaving."""

import re
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cog_adapt.contract.differences import expect, follows_cog
from tests.cog_adapt.contract.servers import Event, events
from tests.cog_adapt.waiting import wait_for

STREAM = {"Accept": "text/event-stream"}
NO_STREAM = {
    "error": "This model does not support streaming responses. "
    "Add @cog.streaming to predict() to enable SSE."
}


def without_time(found: list[Event]) -> list[tuple[str, Any]]:
    for event in found:
        if event.event == "completed":
            assert event.data["metrics"].pop("predict_time") > 0
    return [(event.event, event.data) for event in found]


def until(mark):
    return wait_for(lambda: (mark.exists() and mark.read_text()) or None)


@pytest.mark.parametrize(
    ("items", "output"), [({}, [[0], [1], [2]]), ({"n": 1}, [[0]]), ({"n": 0}, [])]
)
def test_a_generator_is_a_list_in_json(iterating, items, output):
    assert iterating.output(**items) == output


def test_a_concatenated_iterator_is_a_list_too(streaming):
    assert streaming.output() == ["a", "b", "c"]


def test_an_async_generator_is_a_list_too(several):
    assert several.output() == ["a", "b", "c"]


def test_a_stream_in_its_bytes(streaming):
    name = streaming.new_id()
    with streaming.open_stream("/predictions", {"id": name}) as response:
        assert response.headers["content-type"].partition(";")[0] == "text/event-stream"
        assert response.headers["cache-control"] == "no-cache"
        body = response.read().decode()
    end = '"metrics":{"predict_time":TIME},"output":["a","b","c"],"status":"succeeded"}'
    assert re.sub(r'(?<="predict_time":)[\d.e-]+', "TIME", body) == (
        f'event: start\ndata: {{"id":"{name}","status":"processing"}}\n\n'
        'event: output\ndata: {"chunk":"a","index":0}\n\n'
        'event: output\ndata: {"chunk":"b","index":1}\n\n'
        'event: output\ndata: {"chunk":"c","index":2}\n\n'
        f'event: completed\ndata: {{"id":"{name}","logs":"",{end}\n\n'
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"Accept": "application/json, text/event-stream;q=0.1"},
        {"Accept": "text/event-stream", "Prefer": "respond-async"},
    ],
)
def test_who_accepts_a_stream_gets_one(streaming, headers):
    response = streaming.post("/predictions", {}, headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")


def test_a_stream_of_nothing(streaming):
    found = without_time(streaming.stream("/predictions", {"id": "x", "input": {"words": ""}}))
    end = {"id": "x", "logs": "", "metrics": {}, "output": [], "status": "succeeded"}
    assert found == [("start", {"id": "x", "status": "processing"}), ("completed", end)]


def test_logs_in_a_stream(streaming, tmp_path):
    """Each line comes at once: the model waits until the test has read it."""
    found, mark = [], str(tmp_path / "mark")
    body = {"input": {"action": "log", "words": "a b", "mark": mark}}
    with streaming.open_stream("/predictions", body) as response:
        for event in events(response):
            found.append(event)
            if event.event == "log" and event.data["source"] == "stderr":
                word = event.data["data"].split()[-1]
                Path(f"{mark}-{word}").touch()
    assert [(event.event, event.data) for event in found[1:-1]] == [
        ("log", {"data": "word a\n", "source": "stdout"}),
        ("log", {"data": "err a\n", "source": "stderr"}),
        ("output", {"chunk": "a", "index": 0}),
        ("log", {"data": "word b\n", "source": "stdout"}),
        ("log", {"data": "err b\n", "source": "stderr"}),
        ("output", {"chunk": "b", "index": 1}),
    ]
    assert found[-1].data["logs"] == "word a\nerr a\nword b\nerr b\n"


def test_metrics_in_a_stream(streaming):
    found = streaming.stream("/predictions", {"input": {"action": "metrics", "words": ""}})
    assert [(event.event, event.data) for event in found[1:-1]] == [
        ("metric", {"mode": "replace", "name": "score", "value": 0.5}),
        ("metric", {"mode": "increment", "name": "count", "value": 1}),
        ("metric", {"mode": "increment", "name": "count", "value": 2}),
        ("metric", {"mode": "append", "name": "steps", "value": 1}),
        ("metric", {"mode": "replace", "name": "a.b", "value": 1}),
    ]
    metrics = found[-1].data["metrics"]
    assert metrics.pop("predict_time") > 0
    assert metrics == {"score": 0.5, "count": 3, "steps": [1], "a": {"b": 1}}


def test_a_failed_stream_ends_with_all_there_is(streaming):
    found = streaming.stream("/predictions", {"input": {"action": "fail", "words": "a b"}})
    end = found[-1].data
    assert (found[-1].event, end["status"], end["output"]) == ("completed", "failed", ["a", "b"])
    assert end["error"] == "Prediction failed: Generator iteration error: ValueError: boom"
    assert end["logs"].startswith("failing\n")


def test_a_failed_stream_of_nothing_has_no_output(streaming):
    found = streaming.stream("/predictions", {"input": {"action": "fail", "words": ""}})
    assert "output" not in found[-1].data


def test_a_cancelled_stream(streaming):
    body = {"id": streaming.new_id(), "input": {"words": "a b c", "seconds": 20}}
    with streaming.open_stream("/predictions", body) as response:
        found = events(response)
        assert [next(found).event for _ in range(2)] == ["start", "output"]
        assert streaming.cancel(body["id"]).text == "{}"
        (end,) = without_time(list(found))
    data = {"id": body["id"], "logs": "", "metrics": {}, "output": ["a"], "status": "canceled"}
    assert end == ("completed", data)


def test_events_come_as_they_happen(streaming):
    with streaming.open_stream("/predictions", {"input": {"words": "a b", "seconds": 0.6}}) as r:
        times = [time.monotonic() for event in events(r) if event.event == "output"]
    assert times[1] - times[0] > 0.3


def test_async_generators_stream_as_they_yield(several):
    with several.open_stream("/predictions", {"input": {"words": "a b", "seconds": 0.6}}) as r:
        times = [time.monotonic() for event in events(r) if event.event == "output"]
    live = times[1] - times[0] > 0.3
    assert live == expect(several, coglet=False, mirror=True, because="async-generators")


def test_no_stream_without_the_decorator(iterating, actions):
    for server in (iterating, actions):
        response = server.request("POST", "/predictions", {}, headers=STREAM)
        assert (response.status_code, response.json()) == (406, NO_STREAM)
        response = server.request("PUT", "/predictions/x", {}, headers=STREAM)
        assert (response.status_code, response.json()) == (406, NO_STREAM)


def test_invalid_inputs_are_no_stream(streaming):
    body = {"input": {"words": 5}}
    response = streaming.request("POST", "/predictions", body, headers=STREAM)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/json"


def test_no_free_slot_is_no_stream(streaming):
    streaming.until_idle()
    name = streaming.start(seconds=20.0)
    if follows_cog(streaming, because="queue"):
        response = streaming.request("POST", "/predictions", {}, headers=STREAM)
        assert (response.status_code, response.json()["status"]) == (409, "failed")
    streaming.cancel(name)


def test_put_starts_a_stream(streaming):
    streaming.until_idle()
    name = streaming.new_id()
    found = streaming.stream(f"/predictions/{name}", {}, method="PUT")
    assert found[0].data["id"] == name
    assert found[-1].data["output"] == ["a", "b", "c"]


def test_put_joins_a_stream_and_replays_it(streaming):
    streaming.until_idle()
    inputs = {"words": "a b c", "seconds": 0.5}
    with streaming.beginning(2):
        name = streaming.start(**inputs)
    body = {"input": inputs}
    found = without_time(streaming.stream(f"/predictions/{name}", body, method="PUT"))
    assert [event for event, _ in found] == ["start", *["output"] * 3, "completed"]
    assert [data["chunk"] for event, data in found if event == "output"] == ["a", "b", "c"]


def test_a_replay_beyond_the_history_is_cut(launch):
    server = launch("streaming.py:Predictor", env={"COG_STREAM_HISTORY_CAPACITY": "3"})
    inputs = {"words": "a b c d e f", "seconds": 0.2}
    with server.beginning(5):
        name = server.start(**inputs)
    (only,) = server.stream(f"/predictions/{name}", {"input": inputs}, method="PUT")
    assert only.event == "error"
    assert only.data["error"] == "SSE stream replay truncated; events were dropped"
    assert only.data["skipped"] in (2, 3, 4)


def test_a_history_of_nothing_gives_what_follows(launch):
    server = launch("streaming.py:Predictor", env={"COG_STREAM_HISTORY_CAPACITY": "0"})
    inputs = {"words": "a b c d", "seconds": 0.4}
    with server.beginning(2):
        name = server.start(**inputs)
    found = server.stream(f"/predictions/{name}", {"input": inputs}, method="PUT")
    assert [event.event for event in found][-1] == "completed"
    chunks = [event.data["chunk"] for event in found if event.event == "output"]
    assert chunks in (["c", "d"], ["d"])
    assert found[-1].data["output"] == ["a", "b", "c", "d"]


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_leaving_a_stream_that_one_started_cancels(streaming, tmp_path, method):
    mark = tmp_path / "mark"
    name = streaming.new_id()
    path = "/predictions" if method == "POST" else f"/predictions/{name}"
    # coglet notices that a reader has left when it has something to write.
    body = {"id": name, "input": {"words": "a " * 100, "seconds": 0.3, "mark": str(mark)}}
    streaming.until_idle()
    with streaming.open_stream(path, body, method=method) as response:
        next(event for event in events(response) if event.event == "output")  # so run() is in it
    assert until(mark) == "CancelationException"


def test_leaving_a_stream_that_one_joined_does_not(streaming, tmp_path):
    mark = tmp_path / "mark"
    streaming.until_idle()
    inputs = {"words": "a b", "seconds": 0.5, "mark": str(mark)}
    name = streaming.start(**inputs)
    with streaming.open_stream(f"/predictions/{name}", {"input": inputs}, method="PUT") as response:
        next(events(response))
    assert until(mark) == "ended"


def test_a_reader_of_events_goes_on_where_it_was_also_after_the_end(streaming):
    if streaming.flavour != "mirror":
        pytest.skip("the mirror's own")
    name = streaming.start(words="a b c", seconds=0.5)
    live = read_events(streaming, name)
    assert [event.event for event in live][-4:] == ["output"] * 3 + ["completed"]
    for seen in range(len(live)):
        assert read_events(streaming, name, seen) == live[seen:]


def read_events(server, name, after=0):
    headers = {"Last-Event-ID": str(after)}
    return list(events(server.get(f"/predictions/{name}/events", headers=headers)))
