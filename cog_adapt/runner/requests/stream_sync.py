"""A streamed answer for a synchronous caller.

Cog's own server sends the pieces of a synchronous generator as they come, but collects those of an
asynchronous generator until the end.
"""

import asyncio
from collections.abc import AsyncIterator, Generator
from typing import Any

from cog_adapt.runner.model_runner import ModelRunner
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.few_shot import stream
from cog_adapt.runner.requests.progress import Scope

_END = object()


def stream_sync(
    runner: ModelRunner, request: Request, scope: Scope | None = None
) -> Generator[Any, None, None]:
    """Yield what `stream` yields, on a thread without an event loop; closing it cancels."""
    with asyncio.Runner() as loop:
        yield from _run(loop, stream(runner, request, scope))


def _run(loop: asyncio.Runner, pieces: AsyncIterator[Any]) -> Generator[Any, None, None]:
    try:
        while (piece := loop.run(_next(pieces))) is not _END:
            yield piece
    finally:
        loop.run(_closed(pieces))


async def _next(pieces: AsyncIterator[Any]) -> Any:  # noqa: ANN401 - a piece of any kind
    return await anext(pieces, _END)


async def _closed(pieces: Any) -> None:  # noqa: ANN401 - an asynchronous generator
    await pieces.aclose()
