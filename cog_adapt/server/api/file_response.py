"""An open file as an answer, read on a thread a portion at a time."""

import asyncio
import os
from collections.abc import AsyncIterator
from typing import BinaryIO, Final

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

PORTION: Final = 2**18


class FileResponse(StreamingResponse):
    """Sends the content of a file and closes it, even if the client has left.

    Args:
        file: open for reading, by this response alone.
        name: offered to browsers for saving.
        media_type: of the file.
    """

    def __init__(self, file: BinaryIO, name: str, media_type: str) -> None:
        self._file = file
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
