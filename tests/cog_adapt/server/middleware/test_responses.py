"""Answers that middlewares give by themselves."""

import asyncio

from cog_adapt.server.middleware.responses import CLOSE, AsgiResponse
from tests.cog_adapt.server.asgi_client import ask


def serve(response):
    async def app(_scope, _receive, send):
        await response.send(send)

    return ask(app)


def test_an_error_in_text_is_the_text():
    answer = serve(AsgiResponse.in_text(413, "zu groß", CLOSE))
    assert (answer.status, answer.body.decode()) == (413, "zu groß")
    assert answer.headers == {
        "content-type": "text/plain; charset=utf-8",
        "connection": "close",
        "content-length": "8",
    }


def test_between_its_beginning_and_its_end_the_connection_stays_open():
    sent = []

    async def send(message):
        sent.append(message)

    response = AsgiResponse.in_text(408, "slow")
    asyncio.run(response.begin(send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[-1] == {"type": "http.response.body", "body": b"slow", "more_body": True}
    asyncio.run(response.end(send))
    assert sent[2:] == [{"type": "http.response.body", "body": b""}]
