"""An asynchronous healthcheck()."""

from pathlib import Path

from cog import BaseRunner


class Predictor(BaseRunner):
    async def healthcheck(self) -> bool:
        return not Path("ill").exists()

    async def run(self, text: str = "t") -> str:
        return text
