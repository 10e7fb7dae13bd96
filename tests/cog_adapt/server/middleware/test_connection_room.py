"""More connections than a server takes: idle ones make room, and others are answered."""

import contextlib
import http.client
import json
import resource
import socket
import threading

import pytest
from starlette.responses import PlainTextResponse

from cog_adapt.server.middleware.connection_limits import BoundedProtocol, bounded
from cog_adapt.server.middleware.connection_room import ConnectionRoom, most_by_files
from tests.cog_adapt.server.asgi_client import served
from tests.cog_adapt.waiting import wait_until

go_on = threading.Event()


async def app(scope, receive, send):
    """Answers at once, or on `/long` when it is let."""
    if scope["path"] == "/long":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"begun", "more_body": True})
        while not go_on.is_set() and (await receive())["type"] != "http.disconnect":
            pass
        return
    await PlainTextResponse("well")(scope, receive, send)


@pytest.fixture
def crowd():
    with contextlib.ExitStack() as stack:
        protocol = bounded(8)
        address = stack.enter_context(served(app, protocol))

        def connect(peer="127.0.0.1", ask=b""):
            source = (peer, 0)
            client = socket.create_connection(address, 10, source)
            stack.enter_context(client)
            client.sendall(ask)
            return client

        yield address, connect, protocol.room


def health(address, peer="127.0.0.1"):
    connection = http.client.HTTPConnection(
        address[0], address[1], timeout=10, source_address=(peer, 0)
    )
    with contextlib.closing(connection):
        connection.request("GET", "/healthz")
        return connection.getresponse().status


def is_closed(client):
    """Whether the other side has closed it."""
    client.settimeout(0.05)
    try:
        return client.recv(1000) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_idle_connections_make_room_for_new_ones(crowd):
    address, connect, room = crowd
    idle = [connect(f"127.0.1.{number}") for number in range(1, 30)]
    for _ in range(3):
        assert health(address) == 200
    wait_until(lambda: is_closed(idle[0]))
    assert len(room) <= 8
    assert not is_closed(idle[-1])


def test_half_a_request_is_idle_too(crowd):
    address, connect, room = crowd
    for number in range(1, 30):
        connect(f"127.0.1.{number}", b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
    assert health(address) == 200
    assert len(room) <= 8


def test_one_address_leaves_room_to_others(crowd):
    address, connect, room = crowd
    kept = connect("127.0.0.9")
    wait_until(lambda: len(room) == 1)
    long = [connect("127.0.0.7", b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(6)]
    for each in long:
        assert each.recv(1000).startswith(b"HTTP/1.1 200")
    refused = connect("127.0.0.7").recv(1000)
    assert refused.startswith(b"HTTP/1.1 503")
    assert "MAX_CONNECTIONS" in json.loads(refused.partition(b"\r\n\r\n")[2])["error"]
    assert health(address) == 200
    assert not is_closed(kept)


def test_what_has_a_request_under_way_is_not_closed(crowd):
    address, connect, room = crowd
    peers = [f"127.0.1.{number}" for number in range(1, 9)]
    long = [connect(peer, b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n") for peer in peers]
    for each in long:
        assert each.recv(1000).startswith(b"HTTP/1.1 200")
    assert connect().recv(1000).startswith(b"HTTP/1.1 503")
    long[0].close()
    wait_until(lambda: len(room) == 7)
    assert health(address) == 200
    assert not any(map(is_closed, long[1:]))


@pytest.mark.parametrize(
    ("files", "most"), [(1024, 768), (10**6, 8192), (resource.RLIM_INFINITY, 8192), (8, 16)]
)
def test_by_default_it_is_what_open_files_allow(monkeypatch, files, most):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
    assert most_by_files() == most
    assert ConnectionRoom().most == most
    assert ConnectionRoom(5).most == 5
    assert issubclass(bounded(5), BoundedProtocol)
