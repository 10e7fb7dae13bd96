"""An asynchronous stream."""

import asyncio

import cog
from cog import AsyncConcatenateIterator, BaseRunner, Input


class Predictor(BaseRunner):  # type: ignore[misc]
    """Gives the words back, one by one."""

    @cog.streaming  # type: ignore[untyped-decorator]
    @cog.concurrent(max=4)  # type: ignore[untyped-decorator]
    async def run(
        self,
        words: str = Input(default="a b c", description="what to say"),
        fail: bool = Input(default=False),
    ) -> AsyncConcatenateIterator[str]:
        """Say the words."""
        for word in words.split():
            print(f"word {word}", flush=True)
            yield word
            await asyncio.sleep(0)
        if fail:
            raise ValueError("boom")
