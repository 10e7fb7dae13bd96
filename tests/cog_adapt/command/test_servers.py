"""Runs against servers of others: Cog's own, and ones that answer something unexpected."""

import json
import re

import pytest
from werkzeug import Request, Response

from cog_adapt.command.cog_server import cog_server, write_schema
from cog_adapt.server.schema.openapi import openapi_schema

DONE = {"id": "x", "status": "succeeded", "output": "the end", "logs": "", "metrics": {}}


def predict(text: str = "") -> str:
    return text


@pytest.fixture
def other(httpserver):
    """A server that is ready, and says what it takes."""
    httpserver.expect_request("/health-check").respond_with_json({"status": "READY", "setup": {}})
    httpserver.expect_request("/openapi.json").respond_with_json(openapi_schema(predict))
    return httpserver


def url_of(server) -> str:
    return server.url_for("/")


def answer_post(server, body: object, status: int = 200, headers: dict[str, str] | None = None):
    """Answer POST, as a server that has no events of runs."""
    server.expect_request(re.compile(".*/events")).respond_with_data("", status=404)
    server.expect_request("/predictions", method="POST").respond_with_data(
        json.dumps(body), status=status, headers=headers, content_type="application/json"
    )


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


def test_what_the_server_refuses_is_shown_a_line_for_each_field(run, other):
    problems = [
        {"loc": ["body", "input", "text"], "msg": "too rude", "type": "value_error"},
        {"loc": ["body", "input", "tags", 0], "msg": "too short", "type": "value_error"},
    ]
    answer_post(other, {"detail": problems}, 422)
    done = run("predict", "-i", "text=x", url=url_of(other))
    assert done.code == 2
    assert done.err == "error: text: too rude\ntags.0: too short\n"


@pytest.mark.parametrize(
    ("status", "body", "headers", "reason"),
    [
        (429, {"error": "the queue is full"}, {"Retry-After": "7"}, "Try again in 7 s."),
        (409, {"error": "At capacity"}, {}, "answered 409: At capacity"),
        (500, None, {}, "answered 500"),
        (200, [1], {}, "answered 200"),
    ],
)
def test_an_answer_that_is_no_result_is_told(run, other, status, body, headers, reason):
    answer_post(other, body, status, headers)
    done = run("predict", url=url_of(other))
    assert (done.code, done.out) == (1, "")
    assert reason in done.err


def expect_events(server, *events: tuple[str, object]) -> None:
    """Answer a run that was started by such a stream; the run is unknown before."""
    started = []

    def answer(request: Request) -> Response:
        if request.method == "POST":
            started.append(json.loads(request.data)["id"])
            return Response('{"status": "starting"}', 202, content_type="application/json")
        if not started:
            return Response('{"error": "unknown"}', 404, content_type="application/json")
        if request.path.endswith("/events"):
            stream = "".join(f"event: {e}\ndata: {json.dumps(data)}\n\n" for e, data in events)
            return Response(stream, content_type="text/event-stream")
        return Response(json.dumps(DONE), content_type="application/json")

    server.expect_request(re.compile("/predictions.*")).respond_with_handler(answer)


def test_a_stream_that_breaks_off_is_followed_up_by_the_record(run, other):
    expect_events(other, ("log", {"data": "one\n"}), ("error", {"error": "cut", "skipped": 3}))
    done = run("predict", url=url_of(other))
    assert (done.code, done.out, done.err) == (0, "the end\n", "one\n")


def test_a_stream_without_an_end_is_followed_up_by_the_record(run, other):
    expect_events(other, ("start", {"status": "processing"}))
    assert run("predict", url=url_of(other)).out == "the end\n"


def test_a_canceled_run_that_nobody_interrupted_is_a_failure(run, other):
    expect_events(other, ("completed", {**DONE, "status": "canceled"}))
    done = run("predict", url=url_of(other))
    assert (done.code, done.err) == (1, "canceled\n")


def test_an_output_of_nothing_is_said(run, other):
    expect_events(other, ("completed", {**DONE, "output": None}))
    done = run("predict", url=url_of(other))
    assert (done.code, done.out, done.err) == (0, "", "no output\n")


@pytest.mark.parametrize("status", ["SETUP_FAILED", "DEFUNCT", "UNHEALTHY"])
def test_a_server_that_is_not_well_is_told_with_its_logs(run, httpserver, status):
    httpserver.expect_request("/health-check").respond_with_json(
        {"status": status, "setup": {"logs": "loading\nno GPU\n"}}
    )
    done = run("predict", url=url_of(httpserver))
    assert done.code == 1
    assert done.err == f"error: the server's health is {status}.\nloading\nno GPU\n"


def test_a_setup_that_takes_too_long_is_told(run, httpserver):
    httpserver.expect_request("/health-check").respond_with_json({"status": "STARTING"})
    done = run("predict", "--setup-timeout", "0", url=url_of(httpserver))
    assert done.code == 1
    assert "--setup-timeout" in done.err


@pytest.mark.parametrize(
    ("url", "code", "reason"),
    [
        ("http://127.0.0.1:9", 1, "cannot be reached"),
        ("example.com", 2, "--url is example.com"),
        ("ftp://example.com", 2, "--url is ftp://example.com"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named(run, url, code, reason):
    done = run("predict", url=url)
    assert done.code == code
    assert reason in done.err
