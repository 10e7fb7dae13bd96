"""A plain balancer: each request goes to the next server, over a connection of its own."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Iterator, Sequence

_MOST_HEAD = 2**20
_PIECE = 2**16


@contextlib.contextmanager
def relaying(port: int, servers: Sequence[int]) -> Iterator[None]:
    """Listen on a port of loopback, and pass its requests to the ports of servers in turn."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    relay = _Relay(servers)
    thread = threading.Thread(target=loop.run_until_complete, args=[relay.run(port, ready)])
    thread.start()
    try:
        assert ready.wait(20)
        yield
    finally:
        loop.call_soon_threadsafe(relay.stop.set)
        thread.join(20)
        loop.close()


class _Relay:
    def __init__(self, servers: Sequence[int]) -> None:
        self._turns = itertools.cycle(servers)
        self.stop = asyncio.Event()

    async def run(self, port: int, ready: threading.Event) -> None:
        async with await asyncio.start_server(
            self._serve, "127.0.0.1", port, limit=_MOST_HEAD, backlog=1024
        ):
            ready.set()
            await self.stop.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one request on, and its answer back; whoever leaves closes the other's connection.

        Both ends close after the answer, so the client's next request reaches the next server.
        """
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            first, *headers = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            kept = [each for each in headers if not each.lower().startswith(b"connection:")]
            there, back = await asyncio.open_connection("127.0.0.1", next(self._turns))
            with contextlib.closing(back):
                back.write(b"\r\n".join([first, b"Connection: close", *kept]))
                ways = [_pass(reader, back), _pass(there, writer)]
                tasks = [asyncio.ensure_future(way) for way in ways]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
