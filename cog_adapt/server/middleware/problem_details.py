"""Gives the errors of Replicate's API the form that its clients show: RFC 7807.

The refusals of all layers pass here: of keys, limits, routes, and of the app's error handlers.
"""

from http import HTTPStatus
from typing import Any

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cog_adapt.server.middleware.platform_routes import is_platform

_REFUSED = 400
_MOST_CHARACTERS = 4000
_NOT_STARTED = (429, 503)  # the only answers to a POST after which another try runs nothing twice
_DO_NOT_RETRY = (b"x-should-retry", b"false")


class ProblemDetailsMiddleware:
    """Rewrites JSON errors, and tells clients which POST they must not repeat.

    Args:
        app: the application, and the middlewares whose refusals are rewritten.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        if scope["type"] == "http" and is_platform(scope["path"]):
            send = _Rewriter(send, is_post=scope["method"] == "POST").send
        await self._app(scope, receive, send)


class _Rewriter:
    """Holds an error until its body is whole, and sends it in the other form."""

    def __init__(self, send: Send, *, is_post: bool) -> None:
        self._send = send
        self._is_post = is_post
        self._held: Message | None = None
        self._body = bytearray()

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            await self._start(message)
        elif self._held is None:
            await self._send(message)
        else:
            await self._collect(self._held, message)

    async def _start(self, message: Message) -> None:
        if self._is_post and message["status"] not in _NOT_STARTED:
            message["headers"] = [*message.get("headers", ()), _DO_NOT_RETRY]
        is_json = (b"content-type", b"application/json") in message.get("headers", ())
        if message["status"] >= _REFUSED and is_json:
            self._held = message
        else:
            await self._send(message)

    async def _collect(self, held: Message, message: Message) -> None:
        """Send the error as soon as its body is whole: the connection may stay open after it."""
        self._body += message.get("body", b"")
        lengths = [int(value) for name, value in held["headers"] if name == b"content-length"]
        more = message.get("more_body", False)
        if more and (not lengths or len(self._body) < lengths[0]):
            return
        self._held = None
        body = _problem(bytes(self._body), held["status"])
        replaced = (b"content-type", b"content-length")
        headers = [each for each in held["headers"] if each[0] not in replaced]
        headers += [
            (b"content-type", b"application/problem+json"),
            (b"content-length", b"%d" % len(body)),
        ]
        await self._send({**held, "headers": headers})
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _problem(body: bytes, status: int) -> bytes:
    said = msgspec.json.decode(body)
    detail = said.get("detail") or said.get("error") or ""
    if isinstance(detail, list):
        detail = "; ".join(map(_sentence, detail))
    title = HTTPStatus(status).phrase
    shown = detail if len(detail) <= _MOST_CHARACTERS else f"{detail[:_MOST_CHARACTERS]}…"
    return msgspec.json.encode({"title": title, "status": status, "detail": shown})


def _sentence(problem: dict[str, Any]) -> str:
    """Return a problem of an input as text, with the input's name."""
    place = ".".join(str(step) for step in problem["loc"][1:])
    return f"{place}: {problem['msg']}" if place else str(problem["msg"])
