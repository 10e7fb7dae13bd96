"""Connections to no address but those that the rules give.

A name is resolved once for each connection, and the connection is made to the very address that
was checked. The URL keeps its host, so `Host`, SNI and the certificate's check are as ever, and
a kept connection is used again only for the host that it was made for.
"""

import asyncio
import ssl
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import httpcore2
import httpx2

from cog_adapt.server.egress.addresses import AddressRules, EgressError

_RESOLVERS = 8
# the pool that httpx2 makes would reach nothing, should ours one day not take its place
_NOWHERE = "/dev/null"


class _PinnedBackend(httpcore2.SyncBackend):
    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.NetworkStream:
        end = time.monotonic() + (timeout or 0)
        problem: Exception = httpcore2.ConnectTimeout(f"no connection to {host!r} in time")
        for address in _find_addresses(self._rules, host, port):
            left = None if timeout is None else end - time.monotonic()
            if left is not None and left <= 0:
                break
            try:
                return super().connect_tcp(address, port, left, local_address, socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem


class _AsyncPinnedBackend(httpcore2.AnyIOBackend):
    def __init__(self, rules: AddressRules) -> None:
        self._rules = rules
        # its own threads: a slow name server holds up nothing else
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
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                problem = error
        raise problem

    def close(self) -> None:
        self._resolvers.shutdown(wait=False, cancel_futures=True)


class PinnedTransport(httpx2.HTTPTransport):
    """Sends requests by http and https to addresses that the rules give."""

    def __init__(self, rules: AddressRules, ssl_context: ssl.SSLContext) -> None:
        super().__init__(verify=ssl_context, trust_env=False, uds=_NOWHERE)
        self._pool = httpcore2.ConnectionPool(ssl_context, network_backend=_PinnedBackend(rules))

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request; a redirect is another one."""
        check_scheme(request.url)
        return super().handle_request(request)


class AsyncPinnedTransport(httpx2.AsyncHTTPTransport):
    """The same for asyncio, with connections kept for a few seconds."""

    def __init__(self, rules: AddressRules, ssl_context: ssl.SSLContext) -> None:
        super().__init__(verify=ssl_context, trust_env=False, uds=_NOWHERE)
        self._backend = _AsyncPinnedBackend(rules)
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context,
            max_connections=None,
            max_keepalive_connections=32,
            keepalive_expiry=5,
            network_backend=self._backend,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send one request."""
        check_scheme(request.url)
        return await super().handle_async_request(request)

    async def aclose(self) -> None:
        """Close every connection."""
        await super().aclose()
        self._backend.close()


def check_scheme(url: httpx2.URL) -> None:
    """Refuse what is neither http nor https.

    Raises:
        EgressError: it is neither.
    """
    if url.scheme not in ("http", "https"):
        shown = str(url)[:80]
        raise EgressError(f"{shown!r} is not reached for a caller; http and https are")


def _find_addresses(rules: AddressRules, host: str, port: int) -> list[str]:
    try:
        return rules.find_addresses(host, port)
    except OSError as error:
        raise httpcore2.ConnectError(f"{host!r} has no address: {error}") from error
