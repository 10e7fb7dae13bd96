"""Passes requests about what another server of the same database runs on to that server.

The request keeps its path, headers and key, and its answer is passed back as it comes. The other
server is one of the table `servers`; no caller can name it.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import quote

import httpx2
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from cog_adapt.server.api.leaving import wait_until_left
from cog_adapt.server.api.responses import error_response
from cog_adapt.server.errors import OwnerGone
from cog_adapt.server.middleware.peer_calls import PASSED_ON, was_passed_on
from cog_adapt.server.protocol import NOUNS
from cog_adapt.server.records import Record
from cog_adapt.server.records.peers import Peer, PeerServers
from cog_adapt.server.service.prediction import Prediction

# A stream has a comment each 15 s; every other answer of a running prediction comes at once.
_TIMES: Final = {"connect": 2.0, "read": 60.0, "write": 60.0, "pool": 2.0}
_KEPT_SECONDS: Final = 5.0
_OF_A_HOP: Final = frozenset(
    (
        b"connection",
        b"content-length",
        b"expect",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    )
)
_Headers = list[tuple[bytes, bytes]]
log = structlog.get_logger()


class RunsElsewhere(Exception):
    """Another server runs what a request is about.

    Attributes:
        record: of it.
        instead: the answer if that server cannot be asked; None: 503.
        body: of the request, if it has been read.
    """

    def __init__(self, record: Record, instead: Response | None = None, body: bytes = b"") -> None:
        super().__init__(record.id)
        self.record = record
        self.instead = instead
        self.body = body


class KeptBody:
    """The body of a request, kept while it may have to be passed on.

    Args:
        receive: of the request.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._pieces: list[bytes] = []

    async def receive(self) -> Message:
        """Receive a part, and keep it."""
        message = await self._receive()
        self._pieces.append(message.get("body", b""))
        return message

    @property
    def content(self) -> bytes:
        """What has come."""
        return b"".join(self._pieces)

    def drop(self) -> None:
        """Keep it no longer."""
        self._pieces.clear()


class PeerClient:
    """Asks the other servers.

    Args:
        peers: their addresses.
    """

    def __init__(self, peers: PeerServers) -> None:
        self._peers = peers
        self._opened: httpx2.AsyncClient | None = None

    @property
    def _client(self) -> httpx2.AsyncClient:
        """Made when it is needed: its certificates take 20 ms to read."""
        if self._opened is None:
            limits = httpx2.Limits(max_connections=None, keepalive_expiry=_KEPT_SECONDS)
            self._opened = httpx2.AsyncClient(trust_env=False, limits=limits)
        return self._opened

    @asynccontextmanager
    async def answer(
        self, request: Request, record: Record, content: bytes = b""
    ) -> AsyncIterator[httpx2.Response]:
        """Ask the server that runs what a record is of.

        Raises:
            OwnerGone: that server does not answer.
        """
        asked = _to_request(request.scope, await self._find(request, record), content)
        try:
            answer = await self._client.send(asked, stream=True)
        except httpx2.TransportError as error:
            raise _gone(record, str(error) or type(error).__name__) from error
        try:
            yield answer
        finally:
            await answer.aclose()

    async def _find(self, request: Request, record: Record) -> Peer:
        if was_passed_on(request.scope):
            raise _gone(record, "the request has been passed on once, and is not again")
        peer = await self._peers.find(record.server)
        if peer is None or peer.url is None:
            raise _gone(record, "it has left" if peer is None else "it has no SERVER_URL")
        return peer

    async def go_on(self, request: Request, record: Record, seen: int) -> AsyncGenerator[bytes]:
        """Yield the events of a stream that ended here because the run has moved.

        Raises:
            OwnerGone: no other server has it, or that one does not answer.
            TransportError: that server left in the middle.
        """
        if not self._peers.is_elsewhere(record):
            raise being_handed_over(record)
        headers = [each for each in request.scope["headers"] if each[0] != b"last-event-id"]
        headers.append((b"last-event-id", b"%d" % seen))
        followed = Request({**request.scope, "headers": headers})
        async with self.answer(followed, record) as answer:
            async for piece in answer.aiter_raw():
                yield piece

    async def close(self) -> None:
        """Close all connections."""
        if self._opened is not None:
            await self._opened.aclose()


def _gone(record: Record, why: str) -> OwnerGone:
    return OwnerGone(
        f"{NOUNS[record.kind]} {record.id[:80]!r} runs at another server, which cannot be asked: "
        f"{why}. If that server is gone, another one goes on with it within 15 s. Try again."
    )


def _to_request(scope: Scope, peer: Peer, content: bytes) -> httpx2.Request:
    """Return the same request for another server."""
    base = httpx2.URL(peer.url or "")
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    target = base.raw_path.partition(b"?")[0].rstrip(b"/") + path
    query: bytes = scope["query_string"]
    headers = _end_to_end(scope["headers"])
    headers.append((PASSED_ON, (peer.token or "").encode()))
    return httpx2.Request(
        scope["method"],
        base.copy_with(raw_path=target + (b"?" + query if query else b"")),
        headers=headers,
        content=content or None,
        extensions={"timeout": _TIMES},
    )


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> _Headers:
    """Return the headers without those of one connection."""
    kept = [(name.lower(), value) for name, value in headers]
    named = b",".join(value for name, value in kept if name == b"connection").lower().split(b",")
    left_out = _OF_A_HOP.union(name.strip() for name in named)
    return [each for each in kept if each[0] not in left_out]


class PassedAnswer(Response):
    """The answer of the server that runs what a request is about.

    If the client leaves, the other server sees its own client leave.

    Args:
        client: asks that server.
        request: of the client.
        elsewhere: what runs there.
    """

    def __init__(self, client: PeerClient, request: Request, elsewhere: RunsElsewhere) -> None:
        self._client = client
        self._request = request
        self._elsewhere = elsewhere
        self.background = None
        self.status_code = 200  # until the other server has answered
        self.raw_headers = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask, and send the answer as it comes."""
        gone = asyncio.ensure_future(wait_until_left(receive))
        passing = asyncio.ensure_future(self._pass(scope, receive, send))
        try:
            await asyncio.wait({gone, passing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not passing.done():
                passing.cancel()
                await asyncio.wait({passing})
        if not passing.cancelled():
            passing.result()

    async def _pass(self, scope: Scope, receive: Receive, send: Send) -> None:
        record = self._elsewhere.record
        try:
            async with self._client.answer(self._request, record, self._elsewhere.body) as answer:
                await _send_on(answer, send)
        except OwnerGone as error:
            strict = self._request.app.state.parts.settings.strict_cog
            instead = self._elsewhere.instead or error_response(error, strict=strict)
            await instead(scope, receive, send)


async def _send_on(answer: httpx2.Response, send: Send) -> None:
    headers = [each for each in _end_to_end(answer.headers.raw) if each[0] != b"date"]
    length = answer.headers.get("content-length")
    if length is not None:
        headers.append((b"content-length", length.encode()))
    await send({"type": "http.response.start", "status": answer.status_code, "headers": headers})
    try:
        async for piece in answer.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except httpx2.TransportError as error:
        # the client's connection is cut too, so that it comes back with Last-Event-ID
        log.warning("the server that was asked left in the middle of its answer", error=str(error))
        return
    await send({"type": "http.response.body", "body": b""})


async def has_left(prediction: Prediction) -> bool:
    """Return whether a prediction that was canceled here was another server's already."""
    if prediction.written is not None and prediction.request.movable:
        await asyncio.shield(prediction.written)
    return prediction.has_moved


def being_handed_over(record: Record) -> OwnerGone:
    """Return the refusal while this server has taken a run over, but has not begun with it."""
    return _gone(record, "it is being handed over")


async def pass_on(request: Request, elsewhere: RunsElsewhere) -> Response:
    """Answer a request about what another server runs: FastAPI's handler of `RunsElsewhere`."""
    return PassedAnswer(request.app.state.parts.peers, request, elsewhere)
