"""HTTP in two ways, blocking and not, with one face: the calls are written once, as coroutines.

Over `BlockingTransport` no coroutine ever waits, so `finished` runs one to its end by a single
`send`, in the thread of its caller and without an event loop.
"""

import asyncio
import functools
import inspect
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, BinaryIO, Concatenate, Generic, ParamSpec, TypeVar, get_args

import httpx2

A = TypeVar("A")
T = TypeVar("T")
P = ParamSpec("P")
_PIECE = 2**20  # bytes of a file that are sent at once


class AsyncTransport:
    """Waits on the event loop of its caller; files are read and written by threads."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self._http = http

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request; return the answer, of which only the headers are read."""
        return await self._http.send(request, stream=True)

    async def read(self, response: httpx2.Response) -> None:
        """Read an answer whole."""
        await response.aread()

    async def release(self, response: httpx2.Response) -> None:
        """Close an answer, read or not."""
        await response.aclose()

    def pieces(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """Yield the content of an answer as it comes."""
        return response.aiter_bytes()

    def events(self, response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:
        """Yield the events of an answer, of any size: an output may contain files."""
        return aiter(httpx2.EventSource(response, max_event_size=None))

    async def sent(self, file: BinaryIO) -> AsyncIterator[bytes]:
        """Return a file, however large, as the content of a request."""
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

    async def pause(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that reads or writes files."""
        return await asyncio.to_thread(function, *args, **kwargs)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()


class BlockingTransport:
    """The same, but blocks the thread of its caller."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http

    async def send(self, request: httpx2.Request) -> httpx2.Response:  # noqa: D102
        return self._http.send(request, stream=True)

    async def read(self, response: httpx2.Response) -> None:  # noqa: D102
        response.read()

    async def release(self, response: httpx2.Response) -> None:  # noqa: D102
        response.close()

    def pieces(self, response: httpx2.Response) -> AsyncIterator[bytes]:  # noqa: D102
        return _ready(response.iter_bytes())

    def events(self, response: httpx2.Response) -> AsyncIterator[httpx2.ServerSentEvent]:  # noqa: D102
        return _ready(iter(httpx2.EventSource(response, max_event_size=None)))

    def sent(self, file: BinaryIO) -> BinaryIO:  # noqa: D102
        return file

    async def pause(self, seconds: float) -> None:  # noqa: D102
        time.sleep(seconds)

    async def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:  # noqa: D102
        return function(*args, **kwargs)

    async def close(self) -> None:  # noqa: D102
        self._http.close()


Transport = AsyncTransport | BlockingTransport


async def _ready(items: Iterator[T]) -> AsyncIterator[T]:
    """Yield items that are there at once."""
    for item in items:
        yield item


class Blocking(Generic[A]):
    """The calls of an asynchronous class over `BlockingTransport`, for callers that block."""

    def __init__(self, calls: A) -> None:
        self._calls = calls


def blocking(
    call: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Blocking[A], P], T]:
    """Return the method of a `Blocking` that makes a call, with its signature and docstring."""

    @functools.wraps(call)
    def method(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return finished(call(self._calls, *args, **kwargs))

    return method


def iterating(
    call: Callable[Concatenate[A, P], AsyncGenerator[T]],
) -> Callable[Concatenate[Blocking[A], P], Iterator[T]]:
    """Return the method of a `Blocking` that yields what a call yields, as `blocking`."""

    @functools.wraps(call)
    def method(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return iterated(call(self._calls, *args, **kwargs))

    described = inspect.signature(call)
    (item,) = get_args(described.return_annotation)
    shown = described.replace(return_annotation=Iterator[item])  # type: ignore[valid-type]
    method.__signature__ = shown  # type: ignore[attr-defined]
    return method


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
