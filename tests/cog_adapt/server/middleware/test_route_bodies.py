"""What a route of one's own parses and checks on the event loop is bounded, however it reads it."""

import json

import pytest
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.routing import Route

from cog_adapt.server.app import create_app
from cog_adapt.server.errors import ConfigError
from cog_adapt.server.middleware.route_bodies import OWN_BYTES, OWN_VALUES, set_body_limit
from cog_adapt.server.middleware.stack import add_middleware
from cog_adapt.server.settings import Settings
from cog_adapt.server.telemetry.metrics import Metrics
from tests.cog_adapt.server.asgi_client import ask, asked

JSON = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
PIECE = 2**16
WAYS = ("/model", "/included", "/by/hand", "/starlette")


class Message(BaseModel):
    role: str
    content: str


class Chat(BaseModel):
    messages: list[Message]


async def by_hand(request: Request):
    return JSONResponse(len((await request.json())["messages"]))


def own_app(**settings):
    """The server with routes in all the ways that FastAPI has for them."""
    chosen = Settings(**settings)
    app, router = create_app(chosen), APIRouter()

    async def model(chat: Chat):
        return len(chat.messages)

    app.post("/model")(model)
    router.post("/included")(model)
    app.include_router(router)
    app.post("/by/hand")(by_hand)
    app.post("/raised")(by_hand)
    app.router.routes.append(Route("/starlette", by_hand, methods=["POST"]))
    return add_middleware(app, chosen, Metrics())


@pytest.fixture
def parsed(monkeypatch):
    """The size of each text that is parsed as JSON."""
    sizes, loads = [], json.loads

    def noted(text, *args, **options):
        sizes.append(len(text))
        return loads(text, *args, **options)

    monkeypatch.setattr(json, "loads", noted)
    return sizes


def chat(count, text="a"):
    return json.dumps({"messages": [{"role": "user", "content": text}] * count}).encode()


def pieces(body):
    return [body[first : first + PIECE] for first in range(0, len(body), PIECE)]


NEEDED = chat(100)
LARGE = {
    "long text": (chat(1, "a" * 1_000 * len(NEEDED)), f"larger than {OWN_BYTES} bytes"),
    "many values": (chat(10_000), f"more than {OWN_VALUES} commas and brackets"),
    "brackets": (b"[" * 1_000 * len(NEEDED), f"more than {OWN_VALUES} commas and brackets"),
}


@pytest.mark.parametrize("path", WAYS)
@pytest.mark.parametrize("name", LARGE)
def test_a_body_a_thousand_times_as_large_as_needed_is_never_parsed(parsed, path, name):
    body, said = LARGE[name]
    door = own_app()
    assert ask(door, "POST", path, JSON, pieces(NEEDED)).body == b"100"
    parsed.clear()
    answer = ask(door, "POST", path, JSON, pieces(body))
    assert parsed == []
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert said in answer.error
    assert "`set_body_limit`" in answer.error


@pytest.mark.parametrize("path", WAYS)
def test_what_fits_is_answered(path):
    for body, count in ((chat(1, "a" * 1_000_000), b"1"), (chat(3_000), b"3000")):
        assert ask(own_app(), "POST", path, JSON, pieces(body)).body == count


def test_others_are_answered_between_the_pieces_of_a_large_body(parsed):
    door, healths = own_app(), []
    parts = pieces(chat(1, "a" * 2**24))

    async def between(scope, receive, send):
        async def receive_late():
            healths.append((await asked(door, path="/healthz")).status)
            return await receive()

        await door(scope, receive_late, send)

    assert ask(between, "POST", "/model", JSON, parts).status == 413
    assert healths == [200] * len(parts)
    assert parsed == []


def test_the_problems_of_a_body_are_few_and_show_nothing_of_it():
    body = b'{"messages":[' + b'{"role":1},' * 4_000 + b'{"role":"secret"}]}'
    answer = ask(own_app(), "POST", "/model", JSON, pieces(body))
    problems = json.loads(answer.body)["detail"]
    assert answer.status == 422
    assert len(problems) == 101
    assert problems[0]["loc"] == ["body", "messages", "0", "role"]
    assert problems[-1]["msg"] == "7,901 more problems. Correct these first."
    assert b"secret" not in answer.body


def test_nested_values_that_are_no_messages_are_the_callers_mistake():
    body = b'{"messages":' + b"[" * 900 + b"]" * 900 + b"}"
    assert ask(own_app(), "POST", "/model", JSON, [body]).status == 422


def test_a_route_may_take_more_up_to_what_the_operator_allows(parsed):
    set_body_limit("POST /raised", 4 * OWN_BYTES)
    body = chat(4 * OWN_VALUES)
    assert ask(own_app(), "POST", "/raised", JSON, pieces(body)).status == 200
    assert ask(own_app(), "POST", "/raised", JSON, pieces(body * 4)).status == 413
    parsed.clear()
    door = own_app(max_body_bytes=OWN_BYTES)
    assert ask(door, "POST", "/raised", JSON, pieces(body)).status == 413
    assert parsed == []


@pytest.mark.parametrize("path", ["/predictions", "/predictions/some-id", "/trainings"])
def test_the_servers_own_large_bodies_have_their_limit(path):
    method = "PUT" if path.count("/") > 1 else "POST"
    answer = ask(own_app(max_body_bytes=9), method, path, {"Content-Length": "10"})
    assert "larger than 9 bytes. Send large files as URLs." in answer.error


def test_strict_cog_refuses_in_cogs_words():
    answer = ask(own_app(strict_cog=True), "POST", "/model", JSON, pieces(LARGE["long text"][0]))
    assert answer.body == b"Failed to buffer the request body: length limit exceeded"


@pytest.mark.parametrize("route", ["", "/v1/files", "POST", "post /v1/files", "POST /files/{id}"])
def test_a_limit_for_what_is_no_route_is_refused(route):
    with pytest.raises(ConfigError, match=r"set_body_limit has the route .*'POST /v1/texts'"):
        set_body_limit(route, OWN_BYTES)


@pytest.mark.parametrize("limit", [0, -1, "4194304", True, 1.5])
def test_a_limit_that_is_no_number_of_bytes_is_refused(limit):
    with pytest.raises(ConfigError, match=r"set_body_limit has .*whole number of bytes"):
        set_body_limit("POST /refused", limit)
