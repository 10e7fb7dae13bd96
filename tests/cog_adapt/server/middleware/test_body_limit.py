import asyncio
import json
import logging
from typing import Any

import pytest
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse

from cog_adapt.server.middleware.body_limit import BodyLimitMiddleware, BodyLimits
from cog_adapt.server.shares.budget import Budget
from tests.cog_adapt.server.asgi_client import ask

CHUNKED = {"Transfer-Encoding": "chunked"}


async def reader(scope, receive, send):
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        size, more = size + len(message["body"]), message["more_body"]
    await PlainTextResponse(str(size))(scope, receive, send)


def fastapi_app():
    app = FastAPI()

    @app.post("/raw")
    async def raw(request: Request):
        return len(await request.body())

    @app.post("/parsed")
    async def parsed(body: dict):
        return body

    return app


def budget_of(most=10**9):
    return Budget("request bodies", "BODY_BYTES", most)


def limit(app=reader, max_bytes=10, pause_seconds=5.0, budget=None, **others):
    budget = budget or budget_of()
    limits = BodyLimits(max_bytes=max_bytes, pause_seconds=pause_seconds, budget=budget, **others)
    return BodyLimitMiddleware(app, lambda method, path: limits)


@pytest.mark.parametrize("headers", [CHUNKED, {"Content-Length": "10"}])
def test_a_body_of_just_the_limit_is_read(headers):
    assert ask(limit(), "POST", headers=headers, parts=[b"x" * 6, b"x" * 4]).body == b"10"


def test_an_announced_body_that_is_too_large_is_413_before_the_application_is_asked():
    async def untouched(scope, receive, send):
        raise AssertionError

    answer = ask(limit(untouched), "POST", headers={"Content-Length": "11"})
    assert answer.status == 413
    assert answer.headers["connection"] == "close"
    assert json.loads(answer.body) == {
        "error": "The request's body is larger than 10 bytes. Send large files as URLs.",
        "status": "failed",
    }


@pytest.mark.parametrize("path", ["/raw", "/parsed"])
@pytest.mark.parametrize("parts", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x"] * 11])
def test_a_chunked_body_is_413_as_soon_as_it_is_too_large(path, parts):
    headers = CHUNKED | {"Content-Type": "application/json"}
    answer = ask(limit(fastapi_app()), "POST", path, headers, parts)
    assert answer.status == 413
    assert "larger than 10 bytes" in answer.error


@pytest.mark.parametrize("path", ["/raw", "/parsed"])
def test_a_body_that_pauses_too_long_is_408(path):
    slow = limit(fastapi_app(), pause_seconds=0.05)
    headers = {"Content-Length": "4", "Content-Type": "application/json"}
    answer = ask(slow, "POST", path, headers, [b"{", 2.0, b"}"])
    assert answer.status == 408
    assert answer.headers["connection"] == "close"
    assert "paused for more than 0.05 s" in answer.error


def test_a_body_that_is_fast_enough_may_take_longer_than_a_pause():
    steady = limit(max_bytes=100_000, pause_seconds=0.2)
    answer = ask(steady, "POST", headers=CHUNKED, parts=[b"x" * 1024, 0.1] * 6 + [b"x"])
    assert (answer.status, answer.body) == (200, b"6145")


def test_the_time_that_the_application_takes_is_not_the_clients():
    async def busy(scope, receive, send):
        for _ in range(4):
            await receive()
            await asyncio.sleep(0.1)
        await PlainTextResponse("read")(scope, receive, send)

    parts = [b"x"] * 4
    assert ask(limit(busy, pause_seconds=0.2), "POST", headers=CHUNKED, parts=parts).status == 200


def test_after_the_body_the_wait_for_the_clients_leaving_has_no_limit():
    async def waiter(scope, receive, send):
        await receive()
        await receive()
        await PlainTextResponse("left")(scope, receive, send)

    slow = limit(waiter, pause_seconds=0.05)

    async def one_body(scope, receive, send):
        messages = [{"type": "http.request", "body": b"x", "more_body": False}]

        async def receive_late():
            if messages:
                return messages.pop()
            await asyncio.sleep(0.2)
            return {"type": "http.disconnect"}

        await slow(scope, receive_late, send)

    assert ask(one_body, "POST", headers={"Content-Length": "1"}).body == b"left"


def test_a_refusal_after_the_answers_beginning_only_cuts_it_off():
    async def eager(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"early", "more_body": True})
        assert (await receive())["type"] == "http.disconnect"
        assert (await receive())["type"] == "http.disconnect"
        await send({"type": "http.response.body", "body": b"late"})

    answer = ask(limit(eager), "POST", headers=CHUNKED, parts=[b"x" * 11])
    assert (answer.status, answer.body) == (200, b"early")


def test_a_refusal_is_no_error_in_the_log(caplog):
    caplog.set_level(logging.DEBUG)
    ask(limit(fastapi_app()), "POST", "/raw", CHUNKED, [b"x" * 11])
    assert "Traceback" not in caplog.text


def test_a_request_without_a_body_meets_the_application_itself():
    seen = []

    async def app(scope, receive, send):
        seen.append(receive)
        await PlainTextResponse("")(scope, receive, send)

    async def outer(scope, receive, send):
        seen.append(receive)
        await limit(app)(scope, receive, send)

    ask(outer, "GET")
    assert seen[0] is seen[1]


def test_after_a_refusal_the_client_is_not_asked_for_more():
    asked = []

    async def stubborn(scope, receive, send):
        for _ in range(3):
            asked.append((await receive())["type"])

    parts = [b"x" * 11, b"y", b"z"]
    assert ask(limit(stubborn), "POST", headers=CHUNKED, parts=parts).status == 413
    assert asked == ["http.disconnect"] * 3


def test_a_drip_is_408_however_large_the_body_was_before():
    slow = limit(max_bytes=100_000, pause_seconds=0.2)
    answer = ask(slow, "POST", headers=CHUNKED, parts=[b"x" * 50_000, *[0.05, b"x"] * 40])
    assert answer.status == 408


def test_a_body_beyond_the_budget_of_all_is_413():
    answer = ask(
        limit(max_bytes=100, budget=budget_of(9)), "POST", headers=CHUNKED, parts=[b"x" * 6] * 2
    )
    assert answer.status == 413
    assert answer.headers["connection"] == "close"
    assert answer.error == (
        "request bodies: 12 bytes are more than the 9 that one caller may use (BODY_BYTES). "
        "Send less, or files as URLs."
    )


def test_what_is_held_leaves_no_room_for_another_body():
    budget = budget_of(9)
    door = limit(max_bytes=100, budget=budget)
    budget.add("", 5)
    answer = ask(door, "POST", headers=CHUNKED, parts=[b"x" * 6])
    assert (answer.status, answer.headers["retry-after"]) == (429, "1")
    assert "5 bytes and 6 more exceed the 9" in answer.error
    budget.free("", 5)
    assert ask(door, "POST", headers=CHUNKED, parts=[b"x" * 6]).status == 200
    assert budget.used == 0


@pytest.mark.parametrize("part", [b"x" * 11, 2.0])
def test_a_refused_body_is_held_no_longer(part):
    budget = budget_of()
    door = limit(pause_seconds=0.05, budget=budget)
    assert ask(door, "POST", headers=CHUNKED, parts=[b"x", part]).status in (408, 413)
    assert budget.used == 0


def test_a_body_is_held_until_its_answer_has_gone_out():
    async def keeper(scope, receive, send):
        await receive()
        seen.append(budget.used_by("ann"))
        await PlainTextResponse("read")(scope, receive, send)

    async def named(scope, receive, send):
        await door({**scope, "state": {"caller": "ann"}}, receive, send)

    seen: list[Any] = []
    budget = budget_of()
    door = limit(keeper, budget=budget)
    assert ask(named, "POST", headers=CHUNKED, parts=[b"xyz"]).status == 200
    assert (seen, budget.used) == ([3], 0)
