"""Downloads input files and posts webhooks, by URLs that callers name."""

import asyncio
import functools
import ssl
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from pathlib import Path
from typing import NamedTuple

import httpx2

from cog_adapt.server.egress.addresses import AddressRules, EgressError, without_value
from cog_adapt.server.egress.connections import AsyncPinnedTransport, PinnedTransport, check_scheme
from cog_adapt.server.egress.transfer import Transfer
from cog_adapt.server.errors import InputError

_MOST_REDIRECTS = 10
_PIECE = 2**20
_PAUSE_SECONDS = 10.0
_MOST_BYTES_OF_ANSWER = 2**16


class DownloadError(InputError):
    """A file could not be downloaded from a caller's URL."""


class Answer(NamedTuple):
    """A receiver's answer; the names of headers are case-insensitive."""

    status: int
    headers: Mapping[str, str]


class Egress:
    """Sends requests to callers' URLs, if the rules allow their addresses.

    The environment's proxies and passwords are not used; its certificates (SSL_CERT_FILE) are.

    Args:
        allow: networks, addresses and names allowed beside public addresses; see `AddressRules`.

    Raises:
        ConfigError: an entry of `allow` is malformed.
    """

    def __init__(self, allow: Sequence[str] = ()) -> None:
        self._rules = AddressRules(allow)

    def download(
        self,
        url: str,
        path: Path,
        *,
        most_bytes: int,
        transfer: Transfer | None = None,
        user_agent: str | None = None,
    ) -> None:
        """Download a URL to a file; on an error, leave no file.

        Args:
            url: http or https; redirects are followed.
            path: path of the file.
            most_bytes: limit of the bytes sent, and of the decompressed bytes.
            transfer: ends the download when it takes too long, or is aborted.
            user_agent: the User-Agent header.

        Raises:
            EgressError: the URL, or a redirect, leads to a forbidden address.
            DownloadError: no connection, an HTTP error, too slow, too large, or incomplete.
            OSError: the file cannot be written.
        """
        try:
            with path.open("wb") as file:
                transfer = transfer or Transfer(_PAUSE_SECONDS)
                file.writelines(
                    self._fetch(
                        url=url, most_bytes=most_bytes, transfer=transfer, user_agent=user_agent
                    )
                )
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def read(
        self,
        url: str,
        *,
        most_bytes: int,
        transfer: Transfer | None = None,
        user_agent: str | None = None,
    ) -> bytes:
        """Download a URL into memory, as `download` does."""
        transfer = transfer or Transfer(_PAUSE_SECONDS)
        return b"".join(
            self._fetch(url=url, most_bytes=most_bytes, transfer=transfer, user_agent=user_agent)
        )

    def _fetch(
        self, url: str, most_bytes: int, transfer: Transfer, user_agent: str | None
    ) -> Iterator[bytes]:
        headers = {"accept-encoding": "identity"}
        transfer.begin()
        # one client for each file, so that no caller gets another's cookies
        with (
            _translate_errors(url),
            closing(transfer),
            httpx2.Client(
                transport=PinnedTransport(self._rules, self._ssl_context, transfer),
                headers=headers | ({"user-agent": user_agent} if user_agent else {}),
                timeout=None,
                trust_env=False,
            ) as client,
            _follow(client, url) as response,
        ):
            _check_status(response)
            sent = _limit(response.iter_raw(_PIECE), most_bytes, url)
            coding = response.headers.get("content-encoding", "identity").lower()
            yield from _limit(_decode(sent, coding), most_bytes, url)

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        timeout: float,
    ) -> Answer:
        """Post to a URL; return a redirect instead of following it.

        Raises:
            EgressError: the URL leads to a forbidden address, or is malformed.
            OSError: no connection, no answer within `timeout` seconds, or not HTTP.
        """
        try:
            async with (
                asyncio.timeout(timeout),
                self._client.stream("POST", url, content=body, headers=headers) as response,
            ):
                await _skip_body(response)
                return Answer(response.status_code, response.headers)
        except TimeoutError as error:
            raise TimeoutError(f"no answer within {timeout:g} s from {url}") from error
        except httpx2.HTTPError as error:
            raise ConnectionError(f"{type(error).__name__}: {error}") from error
        except (httpx2.InvalidURL, UnicodeError) as error:
            raise EgressError(f"{url!r} is not a URL: {without_value(error)}") from error

    def find_fault(self, url: str) -> str | None:
        """Return why a URL can never be reached, or None if only an attempt can tell."""
        try:
            place = httpx2.URL(url)
            check_scheme(place)
            self._rules.check_number(place.host)
        except (httpx2.InvalidURL, UnicodeError, EgressError) as error:
            return str(error) if isinstance(error, EgressError) else without_value(error)
        return None if place.host else f"{url!r} names no host"

    async def aclose(self) -> None:
        """Close the connections that posts keep open."""
        if "_client" in vars(self):
            await self._client.aclose()

    @functools.cached_property
    def _client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            transport=AsyncPinnedTransport(self._rules, self._ssl_context),
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            timeout=None,
            trust_env=False,
        )

    @functools.cached_property
    def _ssl_context(self) -> ssl.SSLContext:
        return httpx2.create_ssl_context()


@contextmanager
def _translate_errors(url: str) -> Iterator[None]:
    try:
        yield
    except httpx2.TimeoutException as error:
        raise DownloadError(f"{url} is too slow: {error}") from error
    except httpx2.HTTPError as error:
        raise DownloadError(f"{url} cannot be read: {error}") from error
    except zlib.error as error:
        raise DownloadError(f"{url} cannot be decompressed: {error}") from error
    except (httpx2.InvalidURL, UnicodeError) as error:
        raise DownloadError(f"{url!r} is not a URL: {error}") from error


@contextmanager
def _follow(client: httpx2.Client, url: str) -> Iterator[httpx2.Response]:
    """Yield the first response that is no redirect; httpx2 itself would read redirects' bodies."""
    response = client.send(client.build_request("GET", url), stream=True)
    for _ in range(_MOST_REDIRECTS):
        if response.next_request is None:
            break
        response.close()
        response = client.send(response.next_request, stream=True)
    with closing(response):
        if response.next_request is not None:
            raise DownloadError(f"{url} is redirected more than {_MOST_REDIRECTS} times")
        yield response


def _check_status(response: httpx2.Response) -> None:
    if response.is_success:
        return
    whose = "Server" if response.is_server_error else "Client"
    place = response.url.copy_with(userinfo=b"")
    raise DownloadError(
        f"{response.status_code} {whose} Error: {response.reason_phrase} for url: {place}"
    )


def _limit(pieces: Iterable[bytes], most_bytes: int, url: str) -> Iterator[bytes]:
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > most_bytes:
            raise DownloadError(f"{url} holds more than {most_bytes} bytes, the limit of a file")
        yield piece


def _decode(pieces: Iterable[bytes], coding: str) -> Iterator[bytes]:
    if coding == "identity":
        yield from pieces
        return
    if coding not in ("gzip", "x-gzip", "deflate"):
        raise DownloadError(f"content-encoding {coding!r} is not known; gzip and deflate are")
    stream = _new_decompressor()
    for sent in pieces:
        rest = sent
        while rest:
            stream = _new_decompressor() if stream.eof else stream
            yield stream.decompress(rest, _PIECE)
            rest = stream.unused_data or stream.unconsumed_tail
    yield stream.flush()
    if not stream.eof:
        raise DownloadError(f"the {coding} data ends too early")


def _new_decompressor() -> "zlib._Decompress":
    return zlib.decompressobj(zlib.MAX_WBITS | 32)  # accepts a header of gzip or of zlib


async def _skip_body(response: httpx2.Response) -> None:
    # a connection can be used again after its body was read; reading a long one is not worth it
    size = 0
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > _MOST_BYTES_OF_ANSWER:
            return
