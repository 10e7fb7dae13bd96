"""Head and body of an answer in one packet."""

import asyncio
import socket

from starlette.responses import PlainTextResponse

from cog_adapt.server.middleware.joined_writes import _JoinedWrites
from tests.cog_adapt.server.asgi_client import served


class Wire:
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


def test_a_real_answer_comes_in_one_packet():
    with served(PlainTextResponse("answer")) as address:
        with socket.create_connection(address, timeout=10) as client:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            packet = client.recv(65536)
    assert packet.startswith(b"HTTP/1.1 200 ")
    assert packet.endswith(b"answer")
