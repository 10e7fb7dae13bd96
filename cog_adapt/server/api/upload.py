"""The body of a request as a file, however large it is."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from starlette.requests import Request

from cog_adapt.server.errors import DiskFull, QueueFull, TooLarge

MOST_AT_ONCE: Final = 16
MOST_OF_AN_OWNER: Final = 2
_PORTION: Final = 2**20


class UploadCounter:
    """Counts running uploads: each may fill the disk, and take long."""

    def __init__(self) -> None:
        self._of_owner: Counter[str] = Counter()

    @contextmanager
    def one_of(self, owner: str) -> Iterator[None]:
        """Count an upload while the block runs.

        Raises:
            QueueFull: the most uploads are running.
        """
        if self._of_owner[owner] >= MOST_OF_AN_OWNER or self._of_owner.total() >= MOST_AT_ONCE:
            raise QueueFull(
                f"at most {MOST_OF_AN_OWNER} uploads of an owner, and {MOST_AT_ONCE} in all, may "
                "be under way. Try later.",
                retry_after=1,
            )
        self._of_owner[owner] += 1
        try:
            yield
        finally:
            self._of_owner[owner] -= 1
            self._of_owner += Counter()  # removes owners with a count of 0


async def receive_file(request: Request, path: Path, most_bytes: int) -> None:
    """Write the body of a request to a new file; after a failure, the file has a part of the body.

    Raises:
        TooLarge: the body has more than `most_bytes`.
        DiskFull: the file cannot be written.
        ClientDisconnect: the client has left before the end.
    """
    size, portion = 0, bytearray()
    async for part in request.stream():
        size += len(part)
        if size > most_bytes:
            raise TooLarge(f"the file has more than {most_bytes} bytes (MAX_FILE_BYTES).")
        portion += part
        if len(portion) >= _PORTION:
            await asyncio.to_thread(_append, path, bytes(portion))
            portion.clear()
    await asyncio.to_thread(_append, path, bytes(portion))


def _append(path: Path, portion: bytes) -> None:
    try:
        with path.open("ab") as file:
            file.write(portion)
    except OSError as error:
        raise DiskFull(f"the file cannot be kept: {error.strerror}. Try later.") from error
