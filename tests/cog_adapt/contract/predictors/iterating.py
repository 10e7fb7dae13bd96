"""A generator of lists without `@cog.streaming`, written as a plain class with predict()."""
# ruff: noqa: T201 - what it prints is looked at

import time
from collections.abc import Iterator

import cog
from cog import BasePredictor, Input


class Predictor(BasePredictor):
    def setup(self) -> None:
        self.calls = 0

    def predict(
        self,
        n: int = Input(default=3),
        seconds: float = 0.0,
        fail: bool = False,
        files: bool = False,
    ) -> Iterator[cog.Path]:
        for number in range(n):
            print(f"item {number}", flush=True)
            if files:
                path = cog.Path(f"/tmp/item-{number}.txt")
                path.write_text(f"file {number}")
                yield path
            else:
                yield [number]
            time.sleep(seconds)
        if fail:
            raise ValueError("boom")
