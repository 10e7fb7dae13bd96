import asyncio

from cog_adapt.server.middleware.joined_writes import _JoinedWrites


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
