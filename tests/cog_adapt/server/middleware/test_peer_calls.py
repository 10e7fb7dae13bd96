"""What a request gains by saying that another server has passed it on."""

import pytest
from starlette.responses import PlainTextResponse

from cog_adapt.server.middleware.local_callers import LocalCallersMiddleware
from cog_adapt.server.middleware.peer_calls import PeerCallsMiddleware, is_from_peer, was_passed_on
from cog_adapt.server.middleware.rate_limit import RateLimitMiddleware, read_rates
from tests.cog_adapt.server.asgi_client import ask

TOKEN = "known-to-the-database"
MARKER = "Cog-Adapt-Passed-On"


async def said(scope, receive, send):
    text = f"{was_passed_on(scope)} {is_from_peer(scope)}"
    await PlainTextResponse(text)(scope, receive, send)


@pytest.mark.parametrize(
    ("headers", "answer"),
    [
        ({}, b"False False"),
        ({MARKER: ""}, b"True False"),
        ({MARKER: "true"}, b"True False"),
        ({MARKER: TOKEN}, b"True True"),
    ],
)
def test_the_token_alone_shows_another_server(headers, answer):
    app = PeerCallsMiddleware(said, TOKEN)
    assert ask(app, headers=headers).body == answer


@pytest.mark.parametrize(("value", "status"), [("guessed", 403), (TOKEN, 200)])
def test_who_may_destroy_is_decided_where_the_request_came_in(value, status):
    app = PeerCallsMiddleware(LocalCallersMiddleware(said), TOKEN)
    assert ask(app, "DELETE", "/predictions/x", {MARKER: value}).status == status
    assert ask(app, "DELETE", "/predictions/x").status == 403


@pytest.mark.parametrize(("value", "status"), [("guessed", 429), (TOKEN, 200)])
def test_a_rate_is_counted_where_the_request_came_in(value, status):
    app = PeerCallsMiddleware(RateLimitMiddleware(said, read_rates("1/day")), TOKEN)
    answers = [ask(app, "PUT", "/predictions/x", {MARKER: value}).status for _ in range(2)]
    assert answers == [200, status]
