"""Connections only to addresses that the rules allow.

A name is resolved once for each connection, and the connection is made to the checked address. The
URL keeps its host, so `Host`, SNI and the certificate's check are unchanged, and an open connection
is reused only for the host that it was made for.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpcore2
import httpx2

from cog_adapt.server.egress.addresses import AddressRules, EgressError
from cog_adapt.server.egress.transfer import Transfer

_RESOLVERS = 8
_ERRORS = (
    httpcore2.TimeoutException,
    httpcore2.NetworkError,
    httpcore2.ProtocolError,
    httpcore2.UnsupportedProtocol,
)


class _PinnedBackend(httpcore2.SyncBackend):
    def __init__(self, rules: AddressRules, transfer: Transfer) -> None:
        self._rules = rules
        self._transfer = transfer

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        end = time.monotonic() + self._transfer.seconds_left(timeout)
        problem: Exception = httpcore2.ConnectTimeout(f"no connection to {host!r} in time")
        for address in _find_addresses(self._rules, host, port):
            left = end - time.monotonic()
            if left <= 0:
                break
            try:
                stream = super().connect_tcp(
                    host=address,
                    port=port,
                    timeout=left,
                    local_address=local_address,
                    socket_options=socket_options,
                )
                return self._transfer.follow(stream)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem


class _AsyncPinnedBackend(httpcore2.AnyIOBackend):
    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        # name look-ups have threads of their own, so that a slow name server delays nothing else
        self._resolvers = ThreadPoolExecutor(_RESOLVERS, "resolve")

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        problem: Exception = OSError(f"no connection to {host!r}")
        for address in await asyncio.get_running_loop().run_in_executor(
            self._resolvers, _find_addresses, self._rules, host, port
        ):
            try:
                return await super().connect_tcp(
                    host=address,
                    port=port,
                    timeout=timeout,
                    local_address=local_address,
                    socket_options=socket_options,
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem

    def close(self) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)


class PinnedTransport(httpx2.BaseTransport):
    """Sends the requests of one transfer by http and https to allowed addresses."""

    def __init__(
        self, rules: AddressRules, ssl_context: ssl.SSLContext, transfer: Transfer
    ) -> None:
        self._transfer = transfer
        backend = _PinnedBackend(rules, transfer)
        self.pool = httpcore2.ConnectionPool(ssl_context, network_backend=backend)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; a redirect is a request of its own."""
        with _as_errors_of_httpx2():
            answer = self.pool.handle_request(_to_core(request))
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_Body(answer),
            extensions=answer.extensions,
        )

    def close(self) -> None:
        """Close every connection."""
        self.pool.close()
        self._transfer.close()


class AsyncPinnedTransport(httpx2.AsyncBaseTransport):
    """The same for asyncio, with connections kept for a few seconds."""

    def __init__(self, rules: AddressRules, ssl_context: ssl.SSLContext) -> None:
        self._backend = _AsyncPinnedBackend(rules)
        self.pool = httpcore2.AsyncConnectionPool(
            ssl_context,
            max_connections=None,
            max_keepalive_connections=32,
            keepalive_expiry=5,
            network_backend=self._backend,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        with _as_errors_of_httpx2():
            answer = await self.pool.handle_async_request(_to_core(request))
        return httpx2.Response(
            answer.status,
            headers=answer.headers,
            stream=_AsyncBody(answer),
            extensions=answer.extensions,
        )

    async def aclose(self) -> None:
        """Close every connection."""
        await self.pool.aclose()
        self._backend.close()


class _Body(httpx2.SyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    def __iter__(self) -> Iterator[bytes]:
        with _as_errors_of_httpx2():
            yield from self._answer.iter_stream()

    def close(self) -> None:
        self._answer.close()


class _AsyncBody(httpx2.AsyncByteStream):
    def __init__(self, answer: httpcore2.Response) -> None:
        self._answer = answer

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _as_errors_of_httpx2():
            async for part in self._answer.aiter_stream():
                yield part

    async def aclose(self) -> None:
        await self._answer.aclose()


def _to_core(request: httpx2.Request) -> httpcore2.Request:
    """Return the same request in httpcore2's types.

    Raises:
        EgressError: the scheme is neither http nor https.
    """
    check_scheme(request.url)
    return httpcore2.Request(
        request.method,
        httpcore2.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        ),
        headers=request.headers.raw,
        content=request.stream,
        extensions=request.extensions,
    )


@contextmanager
def _as_errors_of_httpx2() -> Iterator[None]:
    """Raise httpcore2's errors as those of httpx2, which have the same names."""
    try:
        yield
    except _ERRORS as error:
        kind: type[httpx2.TransportError] = getattr(httpx2, type(error).__name__)
        raise kind(str(error)) from error


def check_scheme(url: httpx2.URL) -> None:
    """Refuse schemes other than http and https.

    Raises:
        EgressError: the scheme is neither.
    """
    if url.scheme not in ("http", "https"):
        shown = str(url)[:80]
        raise EgressError(f"{shown!r} is not reached for a caller; http and https are")


def _find_addresses(rules: AddressRules, host: str, port: int) -> list[str]:
    try:
        return rules.find_addresses(host, port)
    except OSError as error:
        raise httpcore2.ConnectError(f"{host!r} has no address: {error}") from error
