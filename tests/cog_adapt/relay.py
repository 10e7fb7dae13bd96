"""A plain balancer: each request goes to the next server, over a connection of its own."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator, Iterator, Sequence

_MOST_HEAD = 2**20
_PIECE = 2**16


@contextlib.contextmanager
def relaying(port: int, servers: Sequence[int]) -> Iterator[None]:
    """Listen on a port of loopback, and pass its requests to the ports of servers in turn."""
    relay = _Relay(servers)
    thread = threading.Thread(target=lambda: asyncio.run(relay.run(port)))
    thread.start()
    try:
        assert relay.is_ready.wait(20)
        yield
    finally:
        relay.stop()
        thread.join(20)


class _Relay:
    def __init__(self, servers: Sequence[int]) -> None:
        self._turns = itertools.cycle(servers)
        self._stopped = asyncio.Event()
        self.is_ready = threading.Event()

    async def run(self, port: int) -> None:
        self._loop = asyncio.get_running_loop()
        async with await asyncio.start_server(
            self._serve, "127.0.0.1", port, limit=_MOST_HEAD, backlog=1024
        ):
            self.is_ready.set()
            await self._stopped.wait()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stopped.set)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one request on, and its answer back; whoever leaves closes the other's connection.

        Both ends close after the answer, so the client's next request reaches the next server.
        """
        async with _closing(writer):
            first, *headers = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
            kept = [each for each in headers if not each.lower().startswith(b"connection:")]
            there, back = await asyncio.open_connection("127.0.0.1", next(self._turns))
            async with _closing(back):
                back.write(b"\r\n".join([first, b"Connection: close", *kept]))
                ways = [_pass(reader, back), _pass(there, writer)]
                tasks = [asyncio.ensure_future(way) for way in ways]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)


@contextlib.asynccontextmanager
async def _closing(writer: asyncio.StreamWriter) -> AsyncIterator[None]:
    """Close a connection whatever comes, and leave once it is closed."""
    try:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            yield
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE):
            writer.write(piece)
            await writer.drain()
