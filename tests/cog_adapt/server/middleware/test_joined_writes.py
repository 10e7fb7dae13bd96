"""Head and body of an answer in one packet."""

import asyncio
import socket
import time
from typing import Any

from starlette.responses import PlainTextResponse

from cog_adapt.server.middleware.body_limit import CYCLE
from cog_adapt.server.middleware.joined_writes import _JoinedWrites
from tests.cog_adapt.server.asgi_client import served


class Wire(Any):
    """What a transport is asked to do."""

    def __init__(self):
        self.did = []

    def write(self, data):
        self.did.append(data)

    def close(self):
        self.did.append("closed")

    def is_closing(self):
        return "closed" in self.did


async def _joined():
    wire = Wire()
    return wire, _JoinedWrites(wire, asyncio.get_running_loop())


def test_writes_of_one_moment_go_out_as_one():
    async def scene():
        wire, transport = await _joined()
        transport.write(b"head ")
        transport.write(b"body")
        assert wire.did == []
        await asyncio.sleep(0)
        transport.write(b"next")
        await asyncio.sleep(0)
        return wire.did

    assert asyncio.run(scene()) == [b"head body", b"next"]


def test_a_close_comes_after_what_was_written_before_it():
    async def scene():
        wire, transport = await _joined()
        transport.write(b"last words")
        transport.close()
        assert transport.is_closing()
        await asyncio.sleep(0)
        return wire.did

    assert asyncio.run(scene()) == [b"last words", "closed"]


def test_nothing_is_written_where_nothing_was_said():
    async def scene():
        wire, transport = await _joined()
        transport.write(b"once")
        transport._flush()
        await asyncio.sleep(0)  # the flush that was asked for finds nothing left
        transport.close()
        return wire.did

    assert asyncio.run(scene()) == [b"once", "closed"]


def test_a_real_answer_comes_in_one_packet_and_knows_whether_its_body_has_come():
    seen = []

    async def app(scope, receive, send):
        seen.append(scope[CYCLE].more_body)
        await receive()
        await PlainTextResponse("answer")(scope, receive, send)

    with served(app) as address, socket.create_connection(address, timeout=10) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab")
        packet = client.recv(65536)
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\na")
        while len(seen) < 2:
            time.sleep(0.005)
        client.sendall(b"b")
        client.recv(65536)
    assert packet.startswith(b"HTTP/1.1 200 ")
    assert packet.endswith(b"answer")
    assert seen == [False, True]
