"""Broken and slow clients on real sockets; the server answers others meanwhile."""

import asyncio
import contextlib
import json
import socket
import time
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse

from cog_adapt.server.middleware.body_limit import BodyLimitMiddleware, BodyLimits
from cog_adapt.server.middleware.connection_limits import BoundedProtocol
from cog_adapt.server.shares.budget import Budget
from tests.cog_adapt.server.asgi_client import served
from tests.cog_adapt.waiting import wait_until

LONG = 5  # seconds within which a bound must have shown; all of them are below one


class ShortDeadlines(BoundedProtocol):
    header_seconds = 0.4
    untaken_seconds = 0.4
    max_header_bytes = 4096


left: list[Any] = []


async def app(scope, receive, send):
    """Answers with the size of the body; `/deaf` does not read it, `/large` is a long answer."""
    text = "x" * 30_000_000 if scope["path"] == "/large" else "0"
    if scope["path"] not in ("/deaf", "/large"):
        try:
            text = str(len(await Request(scope, receive).body()))
        except ClientDisconnect:
            left.append(scope["path"])
            return
    await PlainTextResponse(text)(scope, receive, send)


@pytest.fixture(scope="module")
def address():
    budget = Budget("bodies", "BODY_BYTES", 10**9)
    limits = BodyLimits(max_bytes=100_000, pause_seconds=0.4, budget=budget)
    bounded = BodyLimitMiddleware(app, lambda method, path: limits)
    with served(bounded, ShortDeadlines) as address:
        yield address


@contextlib.contextmanager
def connected(address):
    with socket.create_connection(address, timeout=LONG) as client:
        yield client


def read_all(client):
    """What comes until the server closes; fails when it does not."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


def assert_responsive(address):
    with connected(address) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


def drip(client, piece, seconds=LONG):
    """Send the piece again and again until the server has closed; fails when it does not."""
    end = time.monotonic() + seconds
    client.settimeout(0.05)
    got = b""
    while time.monotonic() < end:
        try:
            client.sendall(piece)
            part = client.recv(65536)
        except TimeoutError:
            continue
        except OSError:
            return got
        if not part:
            return got
        got += part
    raise AssertionError("the connection is still open")


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"", b"\r\n"),
        (b"GET / HTTP/1.1\r\n", b"X-A: b\r\n"),
        (b"GET /", b"x"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"\r\n"),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\n", b"X-A: b\r\n"),
    ],
    ids=["blank lines", "headers", "path", "blank lines after an answer", "second headers"],
)
def test_headers_that_drip_are_dropped(address, start, piece):
    with connected(address) as client:
        client.sendall(start)
        assert_responsive(address)
        drip(client, piece)
    assert_responsive(address)


def test_a_connection_that_says_nothing_is_dropped(address):
    with connected(address) as client:
        assert read_all(client) == b""


def test_headers_beyond_the_bound_are_refused(address):
    with connected(address) as client, contextlib.suppress(BrokenPipeError, ConnectionResetError):
        client.sendall(b"GET / HTTP/1.1\r\nX: ")
        answer = drip(client, b"y" * 2000)
        assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    for end in (b"", b"\r\n\r\n"):  # half a request, and a whole one in a single piece
        with connected(address) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 5000 + end)
            answer = read_all(client)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert json.loads(answer.partition(b"\r\n\r\n")[2]) == {
            "error": "Headers are larger than 4096 bytes.",
            "status": "failed",
        }


def test_what_is_no_http_is_told_so_in_json(address):
    with connected(address) as client:
        client.sendall(b"HELLO\r\n\r\n")
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    assert b"content-type: application/json" in head
    assert json.loads(body) == {"error": "Invalid HTTP request received.", "status": "failed"}


CHUNKED = b"POST /%b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "piece", "end"),
    [
        (b"0\r\n", b"x: y\r\n" * 200, b"\r\n"),
        (b"0\r\nx: ", b"y" * 1_000, b"\r\n\r\n"),
        (b"1;", b"y" * 1_000, b"\r\nx\r\n0\r\n\r\n"),
    ],
    ids=["trailers", "one trailer", "a chunk's extension"],
)
def test_what_comes_in_place_of_a_body_is_bounded(address, start, piece, end):
    """A million trailers took 90 MB; of one long trailer all is copied with each piece."""
    with connected(address) as client:
        with contextlib.suppress(OSError):
            client.sendall(CHUNKED % b"" + start + piece * 1_000 + end)
        assert b"HTTP/1.1 200 " not in read_all(client)
    assert_responsive(address)


def test_trailers_within_the_bound_and_a_body_in_small_chunks_are_taken(address):
    with connected(address) as client:
        client.sendall(
            CHUNKED % b"" + b"1\r\nx\r\n" * 3_000 + b"0\r\n" + b"x: y\r\n" * 100 + b"\r\n"
        )
        client.sendall(b"GET /next HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        answers = read_all(client)
    assert answers.count(b"HTTP/1.1 200 ") == 2
    assert b"3000" in answers


def test_a_body_and_the_next_request_do_not_count_as_headers(address):
    request = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000
    with connected(address) as client:
        client.sendall(request + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_all(client).count(b"HTTP/1.1 200 ") == 2


def test_the_headers_of_many_requests_are_not_added_up(address):
    with connected(address) as client:
        for _ in range(8):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 1000)
            time.sleep(0.02)  # so that the headers come in two pieces
            client.sendall(b"\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_the_end_of_a_body_gives_the_next_request_its_whole_time():
    class Patient(BoundedProtocol):
        header_seconds = 1.5

    with served(app, Patient) as address, connected(address) as client:
        client.sendall(b"POST /deaf HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nx")
        assert client.recv(65536).startswith(b"HTTP/1.1 200 ")
        time.sleep(1.0)
        client.sendall(b"xGET /healthz HTTP/1.1\r\n")
        time.sleep(0.9)
        client.sendall(b"Host: x\r\nConnection: close\r\n\r\n")
        assert read_all(client).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize("piece", [b"", b"1\r\nx\r\n"], ids=["pause", "drip"])
def test_a_body_that_does_not_end_is_408_and_dropped(address, piece):
    with connected(address) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        assert_responsive(address)
        answer = drip(client, piece) if piece else read_all(client)
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer


def test_a_body_that_drips_in_after_the_answer_is_dropped(address):
    with connected(address) as client:
        client.sendall(b"POST /deaf HTTP/1.1\r\nHost: x\r\nContent-Length: 90000\r\n\r\n")
        assert drip(client, b"x").startswith(b"HTTP/1.1 200 ")


def test_a_chunked_body_without_end_is_413_and_dropped(address):
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    with connected(address) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.sendall(chunk * 8)
        client.shutdown(socket.SHUT_WR)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"larger than 100000 bytes" in answer
    assert_responsive(address)


def test_a_client_that_sends_all_of_too_much_before_it_reads_sees_the_413(address):
    with connected(address) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20000000\r\n\r\n")
        client.sendall(b"x" * 20_000_000)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b'"status":"failed"}')


def test_a_client_that_asks_first_is_told_413_and_not_to_continue(address):
    with connected(address) as client:
        client.sendall(
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\nExpect: 100-continue\r\n\r\n"
        )
        answer = client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 413 ")


def test_a_client_that_takes_nothing_of_its_answer_is_dropped(address):
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.settimeout(LONG)
        client.connect(address)
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        assert_responsive(address)
        time.sleep(2.5)
        assert len(read_all(client)) < 30_000_000


@pytest.mark.parametrize(
    "garbage",
    [
        bytes(range(256)) * 10,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: many\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx",
        b"POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nHost x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
)
def test_garbage_is_refused_and_the_connection_closed(address, garbage):
    with connected(address) as client:
        client.sendall(garbage)
        answer = read_all(client)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert_responsive(address)


def test_a_client_that_closes_its_half_in_the_body_is_gone(address):
    left.clear()
    with connected(address) as client:
        client.sendall(b"POST /half HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nxxx")
        client.shutdown(socket.SHUT_WR)
        assert read_all(client) == b""
    wait_until(lambda: left, LONG)
    assert left == ["/half"]


def test_many_slow_clients_keep_nobody_out(address):
    with contextlib.ExitStack() as stack:
        for n in range(200):
            client = stack.enter_context(connected(address))
            client.sendall(
                b"POST / HTTP/1.1\r\n" + (b"Content-Length: 9\r\n\r\nx" if n % 2 else b"")
            )
        for _ in range(5):
            assert_responsive(address)


def test_an_answer_that_takes_longer_than_the_deadline_is_not_cut_by_half_a_next_request():
    async def slow(scope, receive, send):
        await asyncio.sleep(1.0)
        await PlainTextResponse("done")(scope, receive, send)

    with served(slow, ShortDeadlines) as address, connected(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        client.sendall(b"GET /next")
        assert b"done" in read_all(client)
