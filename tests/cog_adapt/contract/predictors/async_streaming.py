"""An asynchronous generator that may be streamed."""
# ruff: noqa: T201 - what it prints is looked at

import asyncio

import cog
from cog import AsyncConcatenateIterator, BaseRunner, Input


class Predictor(BaseRunner):
    @cog.streaming
    async def run(
        self,
        words: str = Input(default="a b c"),
        seconds: float = Input(default=0.0),
        fail: bool = Input(default=False),
    ) -> AsyncConcatenateIterator[str]:
        for word in words.split():
            print(f"word {word}", flush=True)
            yield word
            await asyncio.sleep(seconds)
        if fail:
            raise ValueError("boom")
