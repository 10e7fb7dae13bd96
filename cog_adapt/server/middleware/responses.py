"""Answers of the middlewares, before a route is reached."""

import msgspec
from starlette.types import Send

Headers = tuple[tuple[bytes, bytes], ...]
CLOSE: Headers = ((b"connection", b"close"),)
_JSON: Headers = ((b"content-type", b"application/json"),)
_TEXT: Headers = ((b"content-type", b"text/plain; charset=utf-8"),)


class AsgiResponse:
    """A whole answer: its status, its body and its headers."""

    def __init__(self, status: int, body: bytes, headers: Headers) -> None:
        self._status = status
        self._body = body
        self._headers = (*headers, (b"content-length", b"%d" % len(body)))

    @classmethod
    def in_json(cls, status: int, error: str, headers: Headers = ()) -> "AsgiResponse":
        """Make an answer in the shape of Cog's own JSON errors."""
        body = msgspec.json.encode({"error": error, "status": "failed"})
        return cls(status, body, _JSON + headers)

    @classmethod
    def in_text(cls, status: int, error: str, headers: Headers = ()) -> "AsgiResponse":
        """Make an answer in plain text, like the errors of Cog's HTTP library."""
        return cls(status, error.encode(), _TEXT + headers)

    async def send(self, send: Send) -> None:
        """Send the answer."""
        await self.begin(send)
        await self.end(send)

    async def begin(self, send: Send) -> None:
        """Send the answer, but keep the connection until `end`.

        Each call sends a new list of headers, because outer middleware adds headers to the list.
        """
        headers = [*self._headers]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": self._body, "more_body": True})

    async def end(self, send: Send) -> None:
        """End the answer after `begin`: the connection may be closed or reused."""
        await send({"type": "http.response.body", "body": b""})
