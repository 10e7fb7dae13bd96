"""Requests to one server, whose refusals are raised as typed errors."""

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, BinaryIO, NamedTuple, TypeVar

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

T = TypeVar("T")
_JSON = {"Content-Type": "application/json"}
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # s between attempts


class Body(NamedTuple):
    """The content of a request.

    Attributes:
        content: JSON, or a file.
        inputs: the inputs in it, in which refused values are looked up.
        headers: of the request.
    """

    content: bytes | BinaryIO | AsyncIterator[bytes]
    inputs: Mapping[str, Any] = {}
    headers: Mapping[str, str] = _JSON


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
    async def answer(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: httpx2.Timeout | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request; give its answer, whatever its status, unread.

        Raises:
            RefusedInput: the URL is none.
            Unreachable: the server cannot be reached, or the connection was cut.
        """
        try:
            request = self._http.build_request(
                method,
                path,
                content=body.content if body else None,
                headers={**(body.headers if body else {}), **(headers or {})},
                timeout=timeout or self._http.timeout,
            )
            response = await self.transport.send(request)
            try:
                yield response
            finally:
                await self.transport.release(response)
        except (httpx2.InvalidURL, httpx2.UnsupportedProtocol) as error:
            raise refused_url(str(self._http.base_url), error) from error
        except httpx2.TransportError as error:
            url = str(self._http.base_url).rstrip("/")
            raise Unreachable(f"{url} cannot be reached: {error}") from error

    async def request(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a request; return its answer, whatever its status, read whole."""
        async with self.answer(method, path, body, headers) as response:
            await self.transport.read(response)
            return response

    async def json(
        self,
        method: str,
        path: str,
        body: Body | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Send a request; return the JSON object of its answer.

        Raises:
            ClientError: of the kind of the refusal.
        """
        return content(await self.request(method, path, body, headers), body)

    def patience(self) -> "Patience":
        """Return the patience for one call."""
        return Patience(self.transport.pause, self._patience)

    async def patiently(self, send: Callable[[], Awaitable[T]]) -> T:
        """Send a request that may be repeated, again after a cut.

        Raises:
            Unreachable: nothing listens there at the first try, or for too long afterwards.
        """
        patience = self.patience()
        while True:
            try:
                return await send()
            except Unreachable as error:
                is_first = not patience.is_used
                if is_first and isinstance(error.__cause__, httpx2.ConnectError):
                    raise
                await patience.bear(error)


class Patience:
    """Pauses between attempts, each longer than the one before, up to a number of seconds."""

    def __init__(self, pause: Callable[[float], Awaitable[None]], seconds: float) -> None:
        self._pause = pause
        self._seconds = seconds
        self.renew()

    def renew(self) -> None:
        """Begin anew, after a success."""
        self._end: float | None = None
        self._next = _FIRST_PAUSE

    @property
    def is_used(self) -> bool:
        """Whether an attempt has failed."""
        return self._end is not None

    async def bear(self, error: ClientError) -> None:
        """Pause after a failure; raise it if the time is over."""
        now = time.monotonic()
        self._end = now + self._seconds if self._end is None else self._end
        if now >= self._end:
            raise error
        await self._pause(min(self._next, self._end - now))
        self._next = min(2 * self._next, _LONGEST_PAUSE)


def content(response: httpx2.Response, body: Body | None = None) -> dict[str, Any]:
    """Return the JSON object of an answer that was read.

    Raises:
        ClientError: the answer is no success, or has no JSON object.
    """
    answer = json_of(response)
    if not response.is_success or not isinstance(answer, dict):
        raise error_of(response, body and body.inputs)
    return answer


def refused_url(url: str, error: Exception) -> RefusedInput:
    """Return the error for a URL that no request can be sent to."""
    return RefusedInput([Problem("url", url, f"it is {url}: {error}")])
