"""Detects clients that leave before they have their answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.types import Receive


async def wait_until_left(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def watched(receive: Receive, on_leave: Callable[[], object]) -> AsyncIterator[None]:
    """Call a function if the client leaves before the end of the block.

    Args:
        receive: of the request.
        on_leave: called at most once.
    """

    async def watch() -> None:
        await wait_until_left(receive)
        on_leave()

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()
