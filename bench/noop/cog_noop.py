"""Predictors that do nothing, for the mirror and for coglet."""

import time
from collections.abc import Iterator

import cog
from cog import BasePredictor, Input


class Sync(BasePredictor):  # type: ignore[misc]
    """One at a time."""

    def run(self, text: str = Input(default="")) -> str:
        """Return the input."""
        return text


class Async(BasePredictor):  # type: ignore[misc]
    """As many predictions at a time as `COG_MAX_CONCURRENCY` allows."""

    async def run(self, text: str = Input(default="")) -> str:
        """Return the input."""
        return text


class Stream(BasePredictor):  # type: ignore[misc]
    """Many items."""

    @cog.streaming  # type: ignore[untyped-decorator]
    def run(self, count: int = Input(default=1)) -> Iterator[str]:
        """Count."""
        for number in range(count):
            yield f"item {number}"


class Slow(BasePredictor):  # type: ignore[misc]
    """As slow as its input says."""

    def run(self, seconds: float = Input(default=0.0)) -> float:
        """Wait."""
        time.sleep(seconds)
        return seconds
