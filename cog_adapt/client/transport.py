"""HTTP in two ways, blocking and not, with one face: the calls above are written once.

The calls are coroutines. Over `BlockingTransport` no coroutine ever waits, so `finished` runs one
to its end by a single `send`, in the thread of its caller and without an event loop.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, BinaryIO, Generic, Protocol, TypeVar

import httpx2

T = TypeVar("T")
_PIECE = 2**20  # bytes of a file that are sent at once


class Transport(Protocol):
    """Sends requests and waits; answers come unread."""

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return the answer, of which only the headers are read."""

    async def read(self, response: httpx2.Response) -> None:
        """Read an answer whole."""

    async def release(self, response: httpx2.Response) -> None:
        """Close an answer, read or not."""

    def pieces(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """Yield the content of an answer as it comes."""

    def events(self, response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
        """Yield the events of an answer, of any size: an output may contain files."""

    def sent(self, file: BinaryIO) -> BinaryIO | AsyncIterator[bytes]:
        """Return a file, however large, as the content of a request."""

    async def pause(self, seconds: float) -> None:
        """Wait."""

    async def call(self, function: Callable[..., T], *values: object) -> T:
        """Call a function that reads or writes files."""

    async def close(self) -> None:
        """Close the connections."""


class _Ready(Generic[T]):
    """An iterator whose items are there at once, as an asynchronous one."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    def __aiter__(self) -> "_Ready[T]":
        return self

    async def __anext__(self) -> T:
        for item in self._items:
            return item
        raise StopAsyncIteration


class BlockingTransport:
    """Blocks the thread of its caller."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http

    async def send(self, request: httpx2.Request) -> httpx2.Response:  # noqa: D102
        return self._http.send(request, stream=True)

    async def read(self, response: httpx2.Response) -> None:  # noqa: D102
        response.read()

    async def release(self, response: httpx2.Response) -> None:  # noqa: D102
        response.close()

    def pieces(self, response: httpx2.Response) -> AsyncIterator[bytes]:  # noqa: D102
        return _Ready(response.iter_bytes())

    def events(self, response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:  # noqa: D102
        return _Ready(iter(httpx2.EventSource(response, max_event_size=None)))

    def sent(self, file: BinaryIO) -> BinaryIO:  # noqa: D102
        return file

    async def pause(self, seconds: float) -> None:  # noqa: D102
        time.sleep(seconds)

    async def call(self, function: Callable[..., T], *values: object) -> T:  # noqa: D102
        return function(*values)

    async def close(self) -> None:  # noqa: D102
        self._http.close()


class AsyncTransport:
    """Waits on the event loop of its caller; files are read and written by threads."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def send(self, request: httpx2.Request) -> httpx2.Response:  # noqa: D102
        return await self._http.send(request, stream=True)

    async def read(self, response: httpx2.Response) -> None:  # noqa: D102
        await response.aread()

    async def release(self, response: httpx2.Response) -> None:  # noqa: D102
        await response.aclose()

    def pieces(self, response: httpx2.Response) -> AsyncIterator[bytes]:  # noqa: D102
        return response.aiter_bytes()

    def events(self, response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:  # noqa: D102
        return aiter(httpx2.EventSource(response, max_event_size=None))

    async def sent(self, file: BinaryIO) -> AsyncIterator[bytes]:  # noqa: D102
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

    async def pause(self, seconds: float) -> None:  # noqa: D102
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[..., T], *values: object) -> T:  # noqa: D102
        return await asyncio.to_thread(function, *values)

    async def close(self) -> None:  # noqa: D102
        await self._http.aclose()


def finished(call: Coroutine[Any, Any, T]) -> T:
    """Run a call over `BlockingTransport` to its end; return its result."""
    try:
        call.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise RuntimeError("a call over the blocking transport waited for an event loop")


def iterated(items: AsyncGenerator[T]) -> Iterator[T]:
    """Yield the items of a generator over `BlockingTransport`; close it if the reader leaves."""
    end = object()
    try:
        while (item := finished(_next(items, end))) is not end:
            yield item  # type: ignore[misc]
    finally:
        finished(items.aclose())


async def _next(items: AsyncGenerator[T], end: object) -> T | object:
    return await anext(items, end)
