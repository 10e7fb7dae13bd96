"""Head and body of an answer in one packet: uvicorn writes them one after the other.

On loopback the second write wakes the client again and costs as much as the first.
"""

import asyncio
from typing import Any

from cog_adapt.server.middleware.connection_limits import BoundedProtocol


class JoiningProtocol(BoundedProtocol):
    """uvicorn's protocol over a transport that joins the writes of one moment."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Put the joining in between."""
        super().connection_made(_JoinedWrites(transport, self.loop))  # type: ignore[arg-type]


class _JoinedWrites:
    """A transport; what is written until the loop's next turn goes out at once."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._waiting: list[bytes] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever a transport has
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._waiting:
            self._transport.write(b"".join(self._waiting))
            self._waiting.clear()
