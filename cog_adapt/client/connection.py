"""Requests to one server, whose refusals are raised as typed errors."""

import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

import httpx2

from cog_adapt.client.errors import (
    ClientError,
    Problem,
    RefusedInput,
    Unreachable,
    error_of,
    json_of,
)
from cog_adapt.client.transport import Transport

_JSON = {"Content-Type": "application/json"}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # s between attempts


class Call(NamedTuple):
    """One request.

    Attributes:
        method: of HTTP.
        path: below the server's root, with its query.
        content: JSON, or a file.
        inputs: the inputs in the content, in which refused values are looked up.
        headers: beside the key's; by default those of JSON.
        files: the parts of a multipart body: name, content, type.
        timeout: limits of its phases; None: the client's.
    """

    method: str
    path: str
    content: bytes | BinaryIO | AsyncIterator[bytes] | None = None
    inputs: Mapping[str, Any] = {}
    headers: Mapping[str, str] = _JSON
    files: Mapping[str, tuple[str, BinaryIO, str]] | None = None
    timeout: httpx2.Timeout | None = None


class Connection:
    """Requests to one server.

    Args:
        http: builds requests to the server's root, with its key.
        transport: sends them.
        patience: seconds for which a cut connection is tried again.
    """

    def __init__(
        self, http: httpx2.Client | httpx2.AsyncClient, transport: Transport, patience: float
    ) -> None:
        self._http = http
        self.transport = transport
        self._patience = patience

    @contextlib.asynccontextmanager
    async def answer(self, call: Call) -> AsyncIterator[httpx2.Response]:
        """Send a request; give its answer, whatever its status, unread.

        Raises:
            RefusedInput: the URL is none.
            Unreachable: the server cannot be reached, or the connection was cut.
        """
        url = str(self._http.base_url).rstrip("/")
        try:
            request = self._http.build_request(
                call.method,
                call.path,
                content=call.content,
                files=call.files,
                headers=call.headers,
                timeout=call.timeout or self._http.timeout,
            )
            response = await self.transport.send(request)
            try:
                yield response
            finally:
                await self.transport.release(response)
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise refused_url(url, error) from error
        except httpx2.TransportError as error:
            raise Unreachable(
                f"{url} cannot be reached: {error}. Does the server run there?"
            ) from error

    async def read(self, call: Call) -> httpx2.Response:
        """Send a request; return its answer, whatever its status, read whole."""
        async with self.answer(call) as response:
            await self.transport.read(response)
            return response

    async def json(self, call: Call) -> dict[str, Any]:
        """Send a request; return the JSON object of its answer.

        Raises:
            ClientError: of the kind of the refusal.
        """
        return content(await self.read(call), call.inputs)

    async def repeated(self, call: Call, until: float = math.inf) -> dict[str, Any]:
        """Send a request that may arrive twice, again after each cut, as `json`.

        Args:
            call: the request.
            until: when, by the monotonic clock, it is given up.

        Raises:
            Unreachable: nothing listens there at the first try, or for too long afterwards.
        """
        patience = self.patience(until)
        while True:
            try:
                return await self.json(call)
            except Unreachable as error:
                await patience.bear(error, has_begun=not _is_nobody_there(error))

    def patience(self, until: float = math.inf) -> "Patience":
        """Return the patience for one call, which ends at a time of the monotonic clock."""
        return Patience(self.transport.pause, self._patience, until)


class Patience:
    """Pauses between attempts, each longer than the one before, up to a number of seconds."""

    def __init__(
        self, pause: Callable[[float], Awaitable[None]], seconds: float, until: float
    ) -> None:
        self._pause = pause
        self._seconds = seconds
        self._until = until
        self.renew()

    def renew(self) -> None:
        """Begin anew, after a success."""
        self._end: float | None = None
        self._next = _FIRST_PAUSE

    async def bear(self, error: ClientError, *, has_begun: bool = True) -> None:
        """Pause after a failure; raise it if the time is over, or the first try began nothing."""
        now = time.monotonic()
        is_hopeless = self._end is None and not has_begun
        self._end = min(now + self._seconds, self._until) if self._end is None else self._end
        if is_hopeless or now >= self._end:
            raise error
        await self._pause(min(self._next, self._end - now))
        self._next = min(2 * self._next, _LONGEST_PAUSE)


def content(response: httpx2.Response, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of an answer that was read.

    Raises:
        ClientError: the answer is no success, or has no JSON object.
    """
    answer = json_of(response)
    if not response.is_success or not isinstance(answer, dict):
        raise error_of(response, inputs)
    return answer


def _is_nobody_there(error: Unreachable) -> bool:
    return isinstance(error.__cause__, httpx2.ConnectError)


def refused_url(url: str, error: Exception) -> RefusedInput:
    """Return the error for a URL that no request can be sent to."""
    return RefusedInput([Problem("url", url, f"it is {url}: {error}")])
