import asyncio
import contextlib
import ssl
import threading
import time
from typing import Any

import httpcore2
import httpx2
import pytest

from cog_adapt.server.egress.addresses import AddressRules, EgressError
from cog_adapt.server.egress.connections import (
    AsyncPinnedTransport,
    PinnedTransport,
    check_scheme,
)
from cog_adapt.server.egress.transfer import Transfer

CONTEXT = ssl.create_default_context()


class Rules(AddressRules):
    """Gives fixed addresses, and notes who asked."""

    def __init__(self, *addresses, error=None):
        self.addresses, self.error, self.asked = addresses, error, []

    def find_addresses(self, host, port):
        self.asked.append((host, port))
        if self.error:
            raise self.error
        return list(self.addresses)


@pytest.fixture
def connect(monkeypatch):
    """Notes each connection; an address in `dead` refuses."""

    class Connects:
        dead = {}
        made = []

    Connects.dead, Connects.made = {}, []
    answer = [b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"] * 2  # kept, it answers again

    def once(host, port, timeout, local_address, socket_options):
        Connects.made.append((host, port, timeout, local_address, socket_options))
        if host in Connects.dead:
            raise Connects.dead[host]

    def sync(self, **arguments):
        once(**arguments)
        return httpcore2.MockStream(answer.copy())

    async def later(self, **arguments):
        once(**arguments)
        return httpcore2.AsyncMockStream(answer.copy())

    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", sync)
    monkeypatch.setattr(httpcore2.AnyIOBackend, "connect_tcp", later)
    return Connects


class Bare(Transfer):
    """Leaves a connection as it is."""

    def follow(self, stream):
        return stream


def get(timeout):
    return httpx2.Request("GET", "http://a.example/", extensions={"timeout": {"connect": timeout}})


def connect_sync(rules, timeout=None):
    transport = PinnedTransport(rules, CONTEXT, Bare(60))
    with contextlib.closing(transport):
        return transport.handle_request(get(timeout)).read()


def connect_async(rules, timeout=None):
    async def once():
        transport = AsyncPinnedTransport(rules, CONTEXT)
        async with contextlib.aclosing(transport):
            return await (await transport.handle_async_request(get(timeout))).aread()

    return asyncio.run(once())


BOTH = pytest.mark.parametrize("open_one", [connect_sync, connect_async])


@BOTH
def test_a_connection_is_made_to_the_address_that_was_given(open_one, connect):
    rules = Rules("1.1.1.1", "2.2.2.2")
    assert open_one(rules) == b"ok"
    assert rules.asked == [("a.example", 80)]
    (made,) = connect.made
    assert made[:2] == ("1.1.1.1", 80)


@BOTH
@pytest.mark.parametrize("name", ["ConnectError", "ConnectTimeout"])
def test_the_next_address_is_tried_and_the_last_problem_raised(open_one, name, connect):
    kind = getattr(httpcore2, name)
    connect.dead = {"1.1.1.1": kind("first"), "2.2.2.2": kind("second")}
    assert open_one(Rules("1.1.1.1", "3.3.3.3"), timeout=5) == b"ok"
    assert [made[0] for made in connect.made] == ["1.1.1.1", "3.3.3.3"]
    with pytest.raises(getattr(httpx2, name), match="second"):
        open_one(Rules("1.1.1.1", "2.2.2.2"), timeout=5)


@BOTH
def test_another_error_ends_the_search(open_one, connect):
    connect.dead = {"1.1.1.1": ValueError("odd")}
    with pytest.raises(ValueError, match="odd"):
        open_one(Rules("1.1.1.1", "2.2.2.2"))
    assert len(connect.made) == 1


@BOTH
def test_a_name_without_an_address_is_no_connection(open_one, connect):
    with pytest.raises(httpx2.ConnectError, match=r"'a\.example' has no address: unknown"):
        open_one(Rules(error=OSError("unknown")))
    with pytest.raises(EgressError, match="private"):
        open_one(Rules(error=EgressError("private")))
    assert connect.made == []


def test_all_addresses_together_have_the_time_of_one(connect, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def slow(self, host, port, timeout, **rest):
        connect.made.append((host, timeout))
        now[0] += 3
        raise httpcore2.ConnectTimeout("slow")

    monkeypatch.setattr(httpcore2.SyncBackend, "connect_tcp", slow)
    with pytest.raises(httpx2.ConnectTimeout, match="slow"):
        connect_sync(Rules("1.1.1.1", "2.2.2.2", "3.3.3.3"), timeout=6)
    assert connect.made == [("1.1.1.1", 6), ("2.2.2.2", 3)]


def test_without_any_time_there_is_no_connection(connect):
    with pytest.raises(httpx2.ConnectTimeout, match=r"no connection to 'a\.example' in time"):
        connect_sync(Rules("1.1.1.1"), timeout=0)
    assert connect.made == []


def test_names_are_looked_up_beside_the_event_loop_and_eight_at_once(connect):
    together = threading.Barrier(8)

    class Slow(Rules):
        def find_addresses(self, host, port):
            together.wait(10)
            return ["1.1.1.1"]

    async def story():
        async with contextlib.aclosing(AsyncPinnedTransport(Slow(), CONTEXT)) as transport:
            answers = [transport.handle_async_request(get(None)) for _ in range(8)]
            assert [each.status_code for each in await asyncio.gather(*answers)] == [200] * 8

    asyncio.run(story())
    assert len(connect.made) == 8


def test_an_async_search_without_addresses_is_a_problem(connect):
    with pytest.raises(OSError, match=r"no connection to 'a\.example'"):
        connect_async(Rules())


@pytest.mark.parametrize("url", ["ftp://1.1.1.1/", "file:///etc/passwd", "//a/", "a"])
def test_only_http_and_https_pass(url):
    with pytest.raises(EgressError, match="http and https are"):
        check_scheme(httpx2.URL(url))


@pytest.mark.parametrize("url", ["http://a/", "https://a/", "HTTP://a/"])
def test_http_and_https_pass(url):
    check_scheme(httpx2.URL(url))


def test_of_a_long_url_80_characters_are_shown():
    with pytest.raises(EgressError) as caught:
        check_scheme(httpx2.URL("ftp://a/" + "x" * 100))
    assert repr("ftp://a/" + "x" * 72) in str(caught.value)


def test_a_request_goes_to_the_address_and_names_the_host(httpserver):
    httpserver.expect_request("/").respond_with_data(b"file")
    url = f"http://a.example:{httpserver.port}/"
    with httpx2.Client(
        transport=PinnedTransport(Rules("127.0.0.1"), CONTEXT, Transfer(60))
    ) as client:
        assert client.get(url).content == b"file"

    async def get():
        transport = AsyncPinnedTransport(Rules("127.0.0.1"), CONTEXT)
        async with httpx2.AsyncClient(transport=transport) as client:
            return (await client.get(url)).content

    assert asyncio.run(get()) == b"file"
    hosts = [request.headers["Host"] for request, _ in httpserver.log]
    assert hosts == [f"a.example:{httpserver.port}"] * 2


def test_another_scheme_reaches_nothing():
    request = httpx2.Request("GET", "ftp://a.example/")
    rules = Rules("127.0.0.1")
    with pytest.raises(EgressError):
        PinnedTransport(rules, CONTEXT, Transfer(60)).handle_request(request)
    with pytest.raises(EgressError):
        asyncio.run(AsyncPinnedTransport(rules, CONTEXT).handle_async_request(request))
    assert rules.asked == []


def test_what_the_rules_refuse_is_not_reached(httpserver):
    url = f"http://127.0.0.1:{httpserver.port}/"
    with (
        httpx2.Client(transport=PinnedTransport(AddressRules(), CONTEXT, Transfer(60))) as client,
        pytest.raises(EgressError),
    ):
        client.get(url)
    assert httpserver.log == []


ERRORS = [
    kind
    for name, kind in vars(httpcore2).items()
    if isinstance(kind, type)
    and issubclass(kind, Exception)
    and kind not in (httpcore2.ConnectionNotAvailable, httpcore2.ProxyError)  # never seen from here
]


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_is_one_of_httpx2_with_its_cause(kind):
    def refuse(*_):
        raise kind("why")

    async def refuse_later(*_):
        raise kind("why")

    request = httpx2.Request("GET", "http://a/")
    transport: Any = PinnedTransport(Rules(), CONTEXT, Transfer(60))
    later: Any = AsyncPinnedTransport(Rules(), CONTEXT)
    transport.pool.handle_request = refuse
    later.pool.handle_async_request = refuse_later
    for attempt in (
        lambda: transport.handle_request(request),
        lambda: asyncio.run(later.handle_async_request(request)),
    ):
        with pytest.raises(httpx2.TransportError, match="why") as caught:
            attempt()
        assert type(caught.value).__name__ == kind.__name__
        assert isinstance(caught.value.__cause__, kind)


class Broken:
    """A body that ends too early."""

    def __iter__(self):
        yield b"a"
        raise httpcore2.RemoteProtocolError("cut")

    async def __aiter__(self):
        yield b"a"
        raise httpcore2.RemoteProtocolError("cut")


def test_a_body_that_breaks_off_is_an_error_of_httpx2():
    transport: Any = PinnedTransport(Rules(), CONTEXT, Transfer(60))
    later: Any = AsyncPinnedTransport(Rules(), CONTEXT)

    async def answer(_):
        return httpcore2.Response(200, content=Broken())

    async def read():
        await (await later.handle_async_request(get(None))).aread()

    transport.pool.handle_request = lambda _: httpcore2.Response(200, content=Broken())
    later.pool.handle_async_request = answer
    with pytest.raises(httpx2.RemoteProtocolError, match="cut"):
        transport.handle_request(get(None)).read()
    with pytest.raises(httpx2.RemoteProtocolError, match="cut"):
        asyncio.run(read())


def test_a_connection_is_kept_and_closed_at_the_end(connect):
    async def story():
        async with contextlib.aclosing(AsyncPinnedTransport(Rules("1.1.1.1"), CONTEXT)) as one:
            for _ in range(2):
                await (await one.handle_async_request(get(None))).aread()
            kept = one.pool.connections
            assert [each.is_idle() for each in kept] == [True]
        assert [each.is_closed() for each in kept] == [True]
        with pytest.raises(RuntimeError, match="shutdown"):  # nothing is looked up any more
            await one.handle_async_request(get(None))

    asyncio.run(story())
    assert len(connect.made) == 1
