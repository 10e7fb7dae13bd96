"""An asynchronous predictor whose code says how many may run at once."""

import asyncio

from cog import BaseRunner, concurrent


class Predictor(BaseRunner):
    def setup(self) -> None:
        self.running = 0

    @concurrent(max=8)
    async def run(self, seconds: float = 0.0) -> int:
        self.running += 1
        await asyncio.sleep(seconds)
        most = self.running
        self.running -= 1
        return most
