"""What happens while a run goes on, whatever the server can do."""

import json
import time
from typing import Any

import pytest
from werkzeug import Response

from cog_adapt.server.command.client import Client
from cog_adapt.server.command.cog_server import cog_server, write_schema
from cog_adapt.server.command.events import RunRequest, cancel, follow
from cog_adapt.server.errors import UnavailableError
from tests.cog_adapt.server.command.conftest import expect_events, url_of


def test_cog_s_own_server_runs_it_with_and_without_a_stream(run, streamer, tmp_path):
    write_schema(streamer, predict="predict.py:Predictor")
    with cog_server(streamer, predict="predict.py:Predictor") as server:
        done = run("predict", "-i", "words=2", url=server.url)
        assert (done.code, done.out) == (0, "word0 word1 \n")
        failed = run("predict", "-i", "fails=true", url=server.url)
        assert failed.code == 1
        assert failed.out == "word0 word1 word2 \n"
        assert "told to" in failed.err
        written = run("predict", "-i", "words=2", "-o", "text", url=server.url)
        assert (written.code, written.out) == (0, "")
        assert (tmp_path / "text").read_text() == "word0 word1 \n"
    schema = streamer / ".cog" / "openapi_schema.json"
    schema.write_text(schema.read_text().replace('"x-cog-streaming": true', '"x-other": true'))
    with cog_server(streamer, predict="predict.py:Predictor") as server:
        done = run("predict", "-i", "words=2", url=server.url)
        assert (done.code, done.out) == (0, "word0 word1 \n")
        assert "begin" in done.err  # the logs came with the answer


def test_a_stream_that_breaks_off_is_followed_up_by_the_record(run, other):
    expect_events(other, ("log", {"data": "one\n"}), ("error", {"error": "cut", "skipped": 3}))
    done = run("predict", url=url_of(other))
    assert (done.code, done.out, done.err) == (0, "the end\n", "one\n")


def test_a_stream_without_an_end_is_followed_up_by_the_record(run, other):
    expect_events(other, ("start", {"status": "processing"}))
    assert run("predict", url=url_of(other)).out == "the end\n"


@pytest.fixture
def client(httpserver):
    made = Client(url_of(httpserver), "secret")
    yield made
    made.close()


def make(kind="predict", *, is_streaming=False):
    return RunRequest(kind, "the-id", {"a": 1}, is_streaming)


@pytest.mark.parametrize(("kind", "where"), [("predict", "/predictions"), ("train", "/trainings")])
def test_a_run_has_the_path_of_its_kind(kind, where):
    assert (make(kind).collection, make(kind).path) == (where, f"{where}/the-id")


def stream(*events):
    text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in events)
    return Response(text, content_type="text/event-stream; charset=utf-8")


EVENTS = [("log", {"data": "a"}), ("completed", {"status": "succeeded"})]


def test_a_streaming_server_answers_post_by_the_events(client, httpserver):
    httpserver.expect_request("/predictions", method="POST").respond_with_response(
        stream(EVENTS[0], ("output", [1]), EVENTS[1], ("log", {"data": "after the end"}))
    )
    assert list(follow(client, make(is_streaming=True))) == EVENTS
    (request, _), *_ = httpserver.log
    assert request.json == {"id": "the-id", "input": {"a": 1}}
    assert request.headers["Accept"] == "text/event-stream"


def test_a_server_with_events_is_asked_for_them_after_the_start(client, httpserver):
    unknown = Response('{"error": "x"}', 404, content_type="application/json")
    httpserver.expect_ordered_request("/trainings/the-id/events").respond_with_response(unknown)
    httpserver.expect_ordered_request("/trainings", method="POST").respond_with_json({}, 202)
    httpserver.expect_ordered_request("/trainings/the-id/events").respond_with_response(
        stream(*EVENTS)
    )
    assert list(follow(client, make("train"))) == EVENTS
    request = httpserver.log[1][0]
    assert request.json == {"id": "the-id", "input": {"a": 1}}
    assert request.headers["Prefer"] == "respond-async"


@pytest.mark.parametrize("status", [404, 200])
def test_a_server_without_events_answers_with_the_end(client, httpserver, status):
    httpserver.expect_request("/predictions/the-id/events").respond_with_data("", status=status)
    final = {"status": "succeeded", "logs": "printed\n"}
    httpserver.expect_request("/predictions", method="POST").respond_with_json(final)
    expected = [("log", {"data": "printed\n"}), ("completed", final)]
    assert list(follow(client, make())) == expected
    httpserver.clear()
    httpserver.expect_request("/predictions/the-id/events").respond_with_json({}, status=200)
    httpserver.expect_request("/predictions", method="POST").respond_with_json({})
    assert list(follow(client, make())) == [("log", {"data": ""}), ("completed", {})]


def test_events_that_are_refused_are_an_error(client, httpserver):
    unknown = Response('{"error": "no more readers"}', 404, content_type="application/json")
    httpserver.expect_request("/predictions/the-id/events").respond_with_response(unknown)
    httpserver.expect_request("/predictions", method="POST").respond_with_json({}, 202)
    with pytest.raises(UnavailableError, match="answered 404: no more readers"):
        list(follow(client, make()))


def test_the_record_is_asked_for_until_it_is_final(client, httpserver, monkeypatch):
    pauses: list[Any] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    post = httpserver.expect_ordered_request("/predictions", method="POST")
    post.respond_with_response(stream(EVENTS[0]))
    for status in ("starting", "processing", "canceled"):
        record = httpserver.expect_ordered_request("/predictions/the-id", method="GET")
        record.respond_with_json({"status": status})
    found = list(follow(client, make(is_streaming=True)))
    assert found == [EVENTS[0], ("completed", {"status": "canceled"})]
    assert pauses == [0.5, 0.5]


@pytest.mark.parametrize("status", ["succeeded", "failed"])
def test_a_record_that_is_final_is_the_end(client, httpserver, status):
    httpserver.expect_request("/predictions", method="POST").respond_with_response(stream())
    httpserver.expect_request("/predictions/the-id").respond_with_json({"status": status})
    assert list(follow(client, make(is_streaming=True))) == [("completed", {"status": status})]


def test_a_run_without_a_record_is_lost(client, httpserver):
    httpserver.expect_request("/predictions", method="POST").respond_with_response(stream())
    httpserver.expect_request("/predictions/the-id").respond_with_data("", status=404)
    with pytest.raises(UnavailableError) as caught:
        list(follow(client, make(is_streaming=True)))
    assert str(caught.value) == "the stream of the-id broke off before its end."


@pytest.mark.parametrize(("status", "known"), [(200, True), (404, False), (202, False)])
def test_a_cancel_says_whether_the_run_is_known(client, httpserver, status, known):
    cancels = httpserver.expect_request("/trainings/the-id/cancel", method="POST")
    cancels.respond_with_data("", status=status)
    assert cancel(client, make("train")) is known


def test_a_cancel_of_a_server_that_is_gone_is_none():
    assert cancel(Client("http://127.0.0.1:9"), make()) is False
