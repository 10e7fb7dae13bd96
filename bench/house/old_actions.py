"""Does what its input says, and notes the start of each run in the file `begun`."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from cog import BaseRunner, Input


class Predictor(BaseRunner):  # type: ignore[misc]  # cog has no types
    """Echoes, fails or waits."""

    async def run(
        self, text: str = Input(), action: str = Input(default="echo")
    ) -> AsyncIterator[str]:
        """Yield the text, and the text in capitals."""
        with Path("begun").open("a") as book:
            book.write(text[:40] + "\n")
        print("begun with", text[:40])
        self.record_metric("letters", len(text))
        yield text
        while action == "wait" and not Path("open").exists():
            await asyncio.sleep(0.01)
        if action == "fail":
            raise ValueError("as it was told")
        yield text.upper()
