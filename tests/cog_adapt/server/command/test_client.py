"""One server, asked over HTTP."""

import time
from typing import Any

import httpx2
import pytest

from cog_adapt.server.command.client import Client, content, refusal
from cog_adapt.server.errors import InputError, ServerError, UnavailableError
from tests.cog_adapt.server.command.conftest import answer_post, url_of


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


@pytest.fixture
def client(httpserver):
    made = Client(url_of(httpserver), "secret")
    yield made
    made.close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    pauses: list[Any] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_a_request_has_the_key_the_body_and_the_headers(client, httpserver):
    httpserver.expect_request("/x", method="PUT").respond_with_json([1])
    assert client.request("PUT", "/x", {"a": 1}, {"Prefer": "wait"}).json() == [1]
    request = httpserver.log[0][0]
    assert request.headers["Authorization"] == "Bearer secret"
    assert (request.json, request.headers["Prefer"]) == ({"a": 1}, "wait")
    assert client.url == url_of(httpserver).rstrip("/")


def test_without_a_key_none_is_sent(httpserver):
    httpserver.expect_request("/x").respond_with_json({})
    Client(url_of(httpserver)).request("GET", "/x")
    assert "Authorization" not in httpserver.log[0][0].headers


def test_an_answer_may_be_read_as_it_comes_and_without_a_limit(client, httpserver):
    httpserver.expect_request("/x", method="POST").respond_with_data("content")
    with client.stream("POST", "/x", {"a": 1}, {"Accept": "text/event-stream"}) as response:
        assert b"".join(response.iter_bytes()) == b"content"
        timeouts = response.request.extensions["timeout"]
    request = httpserver.log[0][0]
    assert (request.json, request.headers["Accept"]) == ({"a": 1}, "text/event-stream")
    assert (timeouts["read"], timeouts["connect"]) == (None, 30.0)
    httpserver.expect_request("/y").respond_with_json({})
    whole = client.request("GET", "/y")
    assert whole.request.extensions["timeout"]["read"] == 30.0


def test_a_proxy_is_for_the_servers_of_others(httpserver, monkeypatch):
    httpserver.expect_request("/x").respond_with_data("by the proxy")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", url_of(httpserver))
    monkeypatch.setenv("http_proxy", url_of(httpserver))
    assert Client("http://elsewhere.invalid").request("GET", "/x").text == "by the proxy"
    with pytest.raises(UnavailableError):
        Client("http://elsewhere.invalid", None, lambda: None).request("GET", "/x")


@pytest.mark.parametrize(
    ("url", "error", "reason"),
    [
        ("http://127.0.0.1:9", UnavailableError, "http://127.0.0.1:9 cannot be reached: "),
        ("ftp://h", InputError, "--url is ftp://h: "),
        ("http://h:x", InputError, "--url is http://h:x: "),
    ],
)
def test_a_url_that_leads_nowhere_is_told(url, error, reason):
    with pytest.raises(error, match=f"^{reason}"):
        Client(url).request("GET", "/")
    with pytest.raises(error, match=f"^{reason}"), Client(url).stream("GET", "/"):
        pass


def expect_health(httpserver, *bodies):
    for body in bodies:
        httpserver.expect_ordered_request("/health-check").respond_with_json(body)


@pytest.mark.parametrize("status", ["READY", "BUSY"])
def test_it_is_asked_until_it_is_ready(client, httpserver, no_pauses, status):
    expect_health(httpserver, {"status": "STARTING"}, {"status": "STARTING"}, {"status": status})
    client.wait_until_ready(60)
    assert no_pauses == [1.0, 1.0]


def test_ones_own_server_is_asked_more_often_and_may_not_listen_yet(
    httpserver, monkeypatch, no_pauses
):
    checks = []
    unreachable = Client("http://127.0.0.1:9", None, lambda: checks.append(1))

    def pause(seconds):
        no_pauses.append(seconds)
        unreachable.url = url_of(httpserver).rstrip("/")

    expect_health(httpserver, {"status": "READY"})
    monkeypatch.setattr(time, "sleep", pause)
    unreachable.wait_until_ready(60)
    assert (no_pauses, len(checks)) == ([0.1], 2)


def test_ones_own_server_that_has_ended_is_not_waited_for():
    def check():
        raise UnavailableError("it ended")

    with pytest.raises(UnavailableError, match="it ended"):
        Client("http://127.0.0.1:9", None, check).wait_until_ready(60)


def test_anothers_server_has_to_be_there():
    with pytest.raises(UnavailableError, match="cannot be reached"):
        Client("http://127.0.0.1:9").wait_until_ready(60)


@pytest.mark.parametrize("status", ["SETUP_FAILED", "DEFUNCT", "UNHEALTHY", "UNKNOWN"])
def test_a_server_that_will_not_be_ready_is_given_up_with_its_reason(client, httpserver, status):
    body = {"status": status, "user_healthcheck_error": "sick", "setup": {"logs": "loading\n\n"}}
    expect_health(httpserver, body)
    with pytest.raises(UnavailableError) as caught:
        client.wait_until_ready(0)
    assert str(caught.value) == f"the server's health is {status}.\nsick\nloading"


def test_a_server_that_takes_too_long_is_given_up_with_its_logs(client, httpserver):
    expect_health(httpserver, {"status": "STARTING", "setup": {"logs": "loading\n"}})
    with pytest.raises(UnavailableError) as caught:
        client.wait_until_ready(0)
    late = "setup takes longer than --setup-timeout; allow more seconds."
    assert str(caught.value) == f"{late}\nloading"


def test_one_that_is_ready_late_is_ready(client, httpserver):
    expect_health(httpserver, {"status": "READY", "setup": None})
    client.wait_until_ready(-1)


def test_the_document_is_the_servers(client, httpserver):
    httpserver.expect_request("/openapi.json").respond_with_json({"openapi": "3"})
    assert client.document() == {"openapi": "3"}


def answer(status, body="", **headers):
    request = httpx2.Request("POST", "http://h/predictions")
    return httpx2.Response(status, text=body, headers=headers, request=request)


@pytest.mark.parametrize("status", [200, 202])
def test_the_object_of_an_answer_is_its_content(status):
    assert content(answer(status, '{"a": 1}')) == {"a": 1}


@pytest.mark.parametrize(
    ("status", "body"), [(201, "{}"), (404, "{}"), (200, "[]"), (200, "{"), (200, "")]
)
def test_any_other_answer_has_none(status, body):
    with pytest.raises(ServerError, match=f"POST http://h/predictions was answered {status}: "):
        content(answer(status, body))


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, '{"error": "not there"}', "not there"),
        (404, '{"detail": "gone", "error": "x"}', "gone"),
        (404, '["list"]', '["list"]'),
        (404, "plain", "plain"),
        (404, "x" * 501, "x" * 500),
        (404, "", "Not Found"),
        (401, '{"error": "no"}', "no Give a key with --key."),
        (403, '{"error": "no"}', "no Give a key of that scope with --key."),
        (429, '{"error": "full"}', "full Try again in some s."),
    ],
)
def test_a_refusal_is_told_with_its_reason_and_remedy(status, body, message):
    error = refusal(answer(status, body))
    assert type(error) is UnavailableError
    assert str(error) == f"POST http://h/predictions was answered {status}: {message}"


def test_a_full_queue_says_when_to_try_again():
    assert str(refusal(answer(429, "full", **{"retry-after": "7"}))).endswith(" Try again in 7 s.")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"detail": "short"}', "short"),
        ('{"detail": [{"loc": ["body", "input", "a", 0], "msg": "b"}, {}]}', "a.0: b\ninput: is "),
        ('{"detail": [{"loc": ["body"], "msg": "b"}]}', "input: b"),
        ('{"detail": [{"loc": ["input", "body"], "msg": "b"}]}', "body: b"),
        ('{"detail": [{"loc": ["query", "a"], "msg": "b"}]}', "query.a: b"),
    ],
)
def test_refused_inputs_are_the_persons_mistake(body, message):
    error = refusal(answer(422, body))
    assert type(error) is InputError
    assert str(error) == message.replace("is ", "is not allowed")
