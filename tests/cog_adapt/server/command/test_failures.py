"""What a command says of a server that refuses, is not well, or breaks off; and of Cog's own."""

import time
from typing import Any

import pytest

from cog_adapt.server.command.cog_server import cog_server, write_schema
from cog_adapt.server.command.local_server import LocalClient
from cog_adapt.server.errors import UnavailableError
from tests.cog_adapt.server.command.conftest import DONE, answer_put, expect_events, url_of
from tests.cog_adapt.waiting import sleeping


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


def test_a_stream_that_breaks_off_is_followed_on(run, other):
    expect_events(other, ("log", {"data": "one\n"}), None, ("completed", DONE))
    done = run("predict", url=url_of(other))
    assert (done.code, done.out, done.err) == (0, "the end\n", "one\n")


def test_what_the_server_refuses_is_shown_a_line_for_each_field(run, other):
    problems = [
        {"loc": ["body", "input", "text"], "msg": "too rude", "type": "value_error"},
        {"loc": ["body", "input", "tags", 0], "msg": "too short", "type": "value_error"},
    ]
    answer_put(other, {"detail": problems}, 422)
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
    answer_put(other, body, status, headers)
    done = run("predict", url=url_of(other))
    assert (done.code, done.out) == (1, "")
    assert reason in done.err


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
        ("example.com", 2, "--url: it is example.com"),
        ("ftp://example.com", 2, "--url: it is ftp://example.com"),
    ],
)
def test_a_server_that_cannot_be_reached_is_named(run, url, code, reason):
    done = run("predict", url=url)
    assert done.code == code
    assert reason in done.err


@pytest.fixture
def pauses(monkeypatch):
    pauses: list[Any] = []
    monkeypatch.setattr(time, "sleep", sleeping(pauses.append))
    return pauses


def test_ones_own_server_is_asked_more_often_and_may_not_listen_yet(httpserver, pauses):
    for status in ("STARTING", "READY"):
        httpserver.expect_ordered_request("/health-check").respond_with_json({"status": status})
    checks: list[int] = []

    def check():
        checks.append(len(checks))
        if len(checks) == 3:
            raise UnavailableError("it ended")

    with pytest.raises(UnavailableError, match="it ended"):
        LocalClient("http://127.0.0.1:9", "key", check).wait_until_ready(60)
    assert pauses == [0.1, 0.1]
    with LocalClient(url_of(httpserver), "key", check) as client:
        client.wait_until_ready(60)
    assert pauses[2:] == [0.1]
