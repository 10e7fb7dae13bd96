"""The client's URL, key, limits and waits, and the error of each refusal."""

import asyncio
import time
from typing import Any

import httpx2
import pytest

from cog_adapt import AsyncClient, Client
from cog_adapt.client import (
    BadRequest,
    Busy,
    ClientError,
    Conflict,
    NotFound,
    NotReady,
    Problem,
    RefusedInput,
    RequestTooLarge,
    ServerFault,
    StorageFull,
    TimedOut,
    Unauthorized,
    Unreachable,
)
from cog_adapt.client.errors import error_of
from tests.cog_adapt.waiting import sleeping


@pytest.fixture
def client(httpserver):
    with Client(httpserver.url_for("/"), "secret") as made:
        yield made


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    pauses: list[Any] = []
    monkeypatch.setattr(time, "sleep", sleeping(pauses.append))
    return pauses


def test_a_request_of_ones_own_has_the_key_the_body_and_the_headers(client, httpserver):
    httpserver.expect_request("/x", method="PUT").respond_with_json([1], 418)
    answer = client.request("PUT", "/x", {"a": 1}, {"Prefer": "wait"})
    assert (answer.status_code, answer.json()) == (418, [1])
    request = httpserver.log[0][0]
    assert request.headers["Authorization"] == "Bearer secret"
    assert (request.json, request.headers["Prefer"]) == ({"a": 1}, "wait")
    assert answer.request.extensions["timeout"]["read"] == 30.0
    assert client.url == httpserver.url_for("/").rstrip("/")


def test_without_a_key_none_is_sent(httpserver, monkeypatch):
    monkeypatch.delenv("API_KEY", raising=False)
    httpserver.expect_request("/x").respond_with_json({})
    with Client(httpserver.url_for("/")) as client:
        client.request("GET", "/x")
    assert "Authorization" not in httpserver.log[0][0].headers


def test_without_a_url_it_is_this_machines(monkeypatch):
    monkeypatch.delenv("COG_ADAPT_URL", raising=False)
    assert (Client().url, AsyncClient().url) == ("http://127.0.0.1:5000",) * 2


def test_a_proxy_is_for_servers_elsewhere(httpserver, monkeypatch):
    httpserver.expect_request("/x").respond_with_data("by the proxy")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", httpserver.url_for("/"))
    monkeypatch.setenv("http_proxy", httpserver.url_for("/"))
    with Client("http://elsewhere.invalid") as client:
        assert client.request("GET", "/x").text == "by the proxy"
    with pytest.raises(Unreachable):
        Client("http://127.0.0.1:9").request("GET", "/x")


@pytest.mark.parametrize(
    ("url", "error", "reason"),
    [
        ("http://127.0.0.1:9", Unreachable, "http://127.0.0.1:9 cannot be reached: "),
        ("ftp://h", RefusedInput, "url: it is ftp://h"),
        ("http://h:x", RefusedInput, "url: it is http://h:x: "),
        ("example.com", RefusedInput, "url: it is example.com"),
    ],
)
def test_a_url_that_leads_nowhere_is_an_error(url, error, reason):
    with pytest.raises(error, match=f"^{reason}"):
        Client(url).document()
    with pytest.raises(error, match=f"^{reason}"):
        asyncio.run(AsyncClient(url).document())


def expect_health(httpserver, *bodies):
    for body in bodies:
        httpserver.expect_ordered_request("/health-check").respond_with_json(body)


@pytest.mark.parametrize("status", ["READY", "BUSY"])
def test_it_is_asked_until_it_is_ready(client, httpserver, pauses, status):
    expect_health(httpserver, {"status": "STARTING"}, {"status": "STARTING"}, {"status": status})
    client.wait_until_ready(60)
    assert pauses == [1.0, 1.0]


@pytest.mark.parametrize("status", ["SETUP_FAILED", "DEFUNCT", "UNHEALTHY", "UNKNOWN"])
def test_a_server_that_will_not_be_ready_is_given_up_with_its_reason(client, httpserver, status):
    body = {"status": status, "user_healthcheck_error": "sick", "setup": {"logs": "loading\n\n"}}
    expect_health(httpserver, body)
    with pytest.raises(NotReady) as caught:
        client.wait_until_ready(0)
    assert str(caught.value) == f"the server's health is {status}.\nsick\nloading"


def test_a_server_that_takes_too_long_is_given_up_with_its_logs(client, httpserver):
    expect_health(httpserver, {"status": "STARTING", "setup": {"logs": "loading\n"}})
    with pytest.raises(NotReady, match="^setup takes longer than .*\nloading$"):
        client.wait_until_ready(0)


def test_one_that_is_ready_late_is_ready(client, httpserver):
    expect_health(httpserver, {"status": "READY", "setup": None})
    client.wait_until_ready(-1)


def test_a_cut_connection_is_tried_again_with_longer_pauses_up_to_the_patience(
    httpserver, monkeypatch, pauses
):
    now = [0.0]

    def pause(seconds):
        pauses.append(seconds)
        now.append(now[-1] + seconds)

    monkeypatch.setattr(time, "sleep", sleeping(pause))
    monkeypatch.setattr(time, "monotonic", lambda: now[-1])
    httpserver.expect_request("/predictions/a/events").respond_with_data(
        "id: 7\nevent: start\ndata: {}\n\n", content_type="text/event-stream"
    )
    with Client(httpserver.url_for("/"), patience=10) as client:
        events = client.follow("a")
        assert next(events).number == 7
        httpserver.clear()
        httpserver.expect_request("/predictions/a/events").respond_with_json({}, 503)
        with pytest.raises(Busy):
            next(events)
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 3.7])
    assert {request.headers["Last-Event-ID"] for request, _ in httpserver.log} == {"7"}


def answer(status, body="", **headers):
    request = httpx2.Request("POST", "http://h/predictions")
    return httpx2.Response(status, text=body, headers=headers, request=request)


@pytest.mark.parametrize(
    ("status", "kind", "body", "message", "detail"),
    [
        (404, NotFound, '{"error": "not there"}', "not there", {"error": "not there"}),
        (404, NotFound, '{"detail": "gone", "error": "x"}', "gone", ...),
        (404, NotFound, '["list"]', '["list"]', ["list"]),
        (404, NotFound, "plain", "plain", "plain"),
        (404, NotFound, "x" * 501, "x" * 500, ...),
        (404, NotFound, "", "Not Found", ""),
        (401, Unauthorized, '{"error": "no"}', "no", ...),
        (403, Unauthorized, '{"error": "no"}', "no", ...),
        (409, Conflict, '{"error": "used"}', "used", ...),
        (429, Busy, '{"error": "full"}', "full Try again in some s.", ...),
        (400, BadRequest, '{"error": "Invalid URL"}', "Invalid URL", ...),
        (418, BadRequest, '{"error": "tea"}', "tea", ...),
        (413, RequestTooLarge, '{"error": "large"}', "large", ...),
        (504, TimedOut, '{"error": "late"}', "late", ...),
        (507, StorageFull, '{"error": "disk"}', "disk", ...),
        (500, ServerFault, '{"error": "fault"}', "fault", ...),
        (302, ClientError, "elsewhere", "elsewhere", ...),
    ],
)
def test_a_refusal_has_its_kind_reason_status_and_detail(status, kind, body, message, detail):
    error = error_of(answer(status, body), {})
    assert (type(error), error.status) == (kind, status)
    assert str(error) == f"POST http://h/predictions was answered {status}: {message}"
    assert detail in (..., error.detail)


def test_a_full_queue_says_when_to_try_again():
    error = error_of(answer(429, "full", **{"retry-after": "7"}), {})
    assert isinstance(error, Busy)
    assert error.retry_after == 7.0
    assert str(error).endswith(" Try again in 7 s.")


@pytest.mark.parametrize(
    ("body", "problems"),
    [
        ('{"detail": "short"}', [("request", None, "short")]),
        (
            '{"detail": [{"loc": ["body", "input", "a", 0], "msg": "b"}, {}]}',
            [("a.0", "x", "b"), ("input", None, "is not allowed")],
        ),
        ('{"detail": [{"loc": ["body", "input", "a/1"], "msg": "b"}]}', [("a.1", None, "b")]),
        ('{"detail": [{"loc": ["body"], "msg": "b"}]}', [("input", None, "b")]),
        ('{"detail": [{"loc": ["input", "body"], "msg": "b"}]}', [("body", None, "b")]),
        ('{"detail": [{"loc": ["query", "a"], "msg": "b"}]}', [("query.a", None, "b")]),
    ],
)
def test_a_refused_input_names_fields_and_sent_values(body, problems):
    error = error_of(answer(422, body), {"a": ["x"]})
    assert isinstance(error, RefusedInput)
    assert error.problems == tuple(Problem(*each) for each in problems)
