"""An open file as an answer, read on a thread a portion at a time."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import BinaryIO, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cog_adapt.server.shares.turns import Share

PORTION: Final = 2**18
MOST_A_SECOND: Final = 2**27


class FilePace:
    """Bounds the bytes a second of the files that a server sends, so that other work has cores.

    The first portion of a file is sent at once; each later portion takes a turn, and owners share
    the turns.

    Args:
        most_a_second: bytes of all files together.
    """

    def __init__(self, most_a_second: int = MOST_A_SECOND) -> None:
        self._seconds = PORTION / most_a_second
        self._turns = Share(1)

    async def wait(self, owner: str) -> None:
        """Wait until an owner may be sent one more portion."""
        async with self._turns.turn(owner):
            await asyncio.sleep(self._seconds)


class FileResponse(StreamingResponse):
    """Sends the content of a file and closes it, even if the client has left.

    Args:
        file: open for reading, by this response alone.
        name: offered to browsers for saving.
        media_type: of the file.
        pace: of the server.
        owner: whose turns the file takes.
    """

    def __init__(
        self, file: BinaryIO, name: str, media_type: str, *, pace: FilePace, owner: str
    ) -> None:
        self._file = file
        self._pace, self._owner = pace, owner
        headers = {
            "Content-Length": str(os.fstat(file.fileno()).st_size),
            "Content-Disposition": f'attachment; filename="{name}"',
            "X-Content-Type-Options": "nosniff",
        }
        super().__init__(self._portions(), headers=headers, media_type=media_type)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.to_thread(self._file.close)

    async def _portions(self) -> AsyncIterator[bytes]:
        while portion := await asyncio.to_thread(self._file.read, PORTION):
            yield portion
            if len(portion) == PORTION:
                await self._pace.wait(self._owner)
