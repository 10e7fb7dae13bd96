"""Limits on a request's body: its size, that of all bodies, and its pace."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cog_adapt.server.errors import BudgetSpent, TooLarge
from cog_adapt.server.limits import MIN_BYTES_PER_SECOND, Pace
from cog_adapt.server.middleware.responses import CLOSE, AsgiResponse
from cog_adapt.server.shares.budget import Budget

_LINGER_SECONDS = 5.0
_BETWEEN_VALUES = (b",", b"[", b"{")
_DISCONNECT: Message = {"type": "http.disconnect"}
_COGS_TEXT = "Failed to buffer the request body: length limit exceeded"


class BodyLimits:
    """The limits of one body, and the refusal of a body beyond them.

    Args:
        max_bytes: the limit of bytes of one body.
        pause_seconds: the longest pause; a dripping body is cut off after the same time.
        budget: the budget of all bodies, each from its first byte to the end of its answer.
        in_text: whether the refusal has the words of Cog's own server.
        remedy: what the refusal tells the caller of too large a body to do.
        most_values: the limit of commas and brackets of one body; None: no limit.
    """

    def __init__(  # noqa: PLR0913 - each limit
        self,
        *,
        max_bytes: int,
        pause_seconds: float,
        budget: Budget,
        in_text: bool = False,
        remedy: str = "Send large files as URLs.",
        most_values: int | None = None,
    ) -> None:
        self.max_bytes = max_bytes
        self.pause_seconds = pause_seconds
        self.budget = budget
        self.most_values = most_values
        self.too_large = (
            AsgiResponse.in_text(413, _COGS_TEXT, CLOSE)
            if in_text
            else AsgiResponse.in_json(
                413,
                f"The request's body is larger than {max_bytes} bytes. {remedy}",
                CLOSE,
            )
        )
        self.too_many_values = AsgiResponse.in_json(
            413,
            f"The request's body has more than {most_values} commas and brackets. {remedy}",
            CLOSE,
        )
        self.too_slow = AsgiResponse.in_json(
            408,
            f"The request's body paused for more than {pause_seconds:g} s, or came at less than "
            f"{MIN_BYTES_PER_SECOND} bytes a second. Send it again.",
            CLOSE,
        )


class BodyLimitMiddleware:
    """Answers 413 to a body that is too large, 408 to one that is too slow, 429 to one too many.

    The connection is then closed. Only the time that the application waits for the client counts.

    Args:
        app: the application.
        limits_of: returns the limits of a request's body, by its method and path.
    """

    def __init__(self, app: ASGIApp, limits_of: Callable[[str, str], BodyLimits]) -> None:
        self._app = app
        self._limits_of = limits_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a connection."""
        length = _announced(scope)
        if length == 0:
            await self._app(scope, receive, send)
            return
        limits = self._limits_of(scope["method"], scope["path"])
        body = _Body(limits=limits, owner=_owner_of(scope), receive=receive, send=send)
        if length is not None and length > limits.max_bytes:
            await body.refuse_large()
            return
        try:
            await self._app(scope, body.receive, body.send)
        except ClientDisconnect:
            if not body.refused:  # after a refusal, this error only tells the application of it
                raise
        finally:
            body.free()


def _announced(scope: Scope) -> int | None:
    """Bytes of the body by the headers; None for a chunked one."""
    if scope["type"] != "http":
        return 0
    length: int | None = 0
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = int(value)  # digits only: the parser has refused anything else
        elif name == b"transfer-encoding":
            return None
    return length


def _owner_of(scope: Scope) -> str:
    """Return the body's owner; empty if no keys are set."""
    name: str = scope.get("state", {}).get("caller", "")
    return name


class _Body:
    """One request's body on its way in; after a refusal the application is cut off."""

    def __init__(self, limits: BodyLimits, owner: str, receive: Receive, send: Send) -> None:
        self._limits = limits
        self._owner = owner
        self._pace = Pace(limits.pause_seconds)
        self._receive = receive
        self._send = send
        self._size = self._values = self._held = 0
        self._more = True
        self._answered = False
        self.refused = False

    async def receive(self) -> Message:
        if not self._more:
            return _DISCONNECT if self.refused else await self._receive()
        message = await self._next_part()
        if message is None:
            return await self._refuse(self._limits.too_slow)
        content = message.get("body", b"")
        size = len(content)
        self._size += size
        self._more = message.get("more_body", False)
        if self._size > self._limits.max_bytes:
            return await self.refuse_large()
        if self._has_too_many_values(content):
            return await self._refuse(self._limits.too_many_values, _LINGER_SECONDS)
        try:
            self._limits.budget.take(self._owner, size, self._held)
        except (TooLarge, BudgetSpent) as error:
            return await self._refuse(_refusal(error), _LINGER_SECONDS)
        self._held += size
        return message

    def _has_too_many_values(self, content: bytes) -> bool:
        if self._limits.most_values is None:
            return False
        self._values += sum(map(content.count, _BETWEEN_VALUES))
        return self._values > self._limits.most_values

    def free(self) -> None:
        """Release the body's bytes from the budget."""
        self._limits.budget.free(self._owner, self._held)
        self._held = 0

    async def _next_part(self) -> Message | None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._pace.left):
                message = await self._receive()
        except TimeoutError:
            return None
        self._pace.note(time.monotonic() - began, len(message.get("body", b"")))
        return message

    async def send(self, message: Any) -> None:  # noqa: ANN401 - ASGI's
        if not self.refused:
            self._answered = True
            await self._send(message)

    async def refuse_large(self) -> Message:
        """Read on for a while: closing with unread bytes is a reset, which can lose the answer."""
        return await self._refuse(self._limits.too_large, _LINGER_SECONDS)

    async def _refuse(self, refusal: AsgiResponse, linger_seconds: float = 0) -> Message:
        self.refused = True
        self._more = False
        self.free()
        if not self._answered:
            await refusal.begin(self._send)
            await self._drain(linger_seconds)
            await refusal.end(self._send)
        return _DISCONNECT

    async def _drain(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._read_to_end()

    async def _read_to_end(self) -> None:
        while (await self._receive()).get("more_body", False):
            pass


def _refusal(error: TooLarge | BudgetSpent) -> AsgiResponse:
    if isinstance(error, TooLarge):
        return AsgiResponse.in_json(413, str(error), CLOSE)
    later = (b"retry-after", b"%d" % error.retry_after)
    return AsgiResponse.in_json(429, str(error), (*CLOSE, later))
