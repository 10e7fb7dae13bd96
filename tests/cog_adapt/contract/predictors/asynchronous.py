"""An asynchronous predictor with several slots."""
# ruff: noqa: T201 - what it prints is looked at

import asyncio
import os
from typing import Any

import cog
from cog import BaseRunner, Input


def note_begun() -> None:
    """Tell the test, by one more letter in a file, that work has begun."""
    with open("begun", "a") as begun:
        begun.write("x")


class Predictor(BaseRunner):
    async def setup(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.running = 0

    async def run(
        self,
        action: str = Input(default="echo"),
        text: str = Input(default="hello"),
        seconds: float = Input(default=0.0),
    ) -> Any:
        self.running += 1
        try:
            return await getattr(self, action)(text, seconds)
        finally:
            self.running -= 1

    async def echo(self, text, seconds):
        return text

    async def sleep(self, text, seconds):
        self.record_metric("own", text)
        print(f"start {text}", flush=True)
        note_begun()
        await asyncio.sleep(seconds)
        print(f"end {text}", flush=True)
        return text

    async def mark(self, text, seconds):
        try:
            note_begun()
            await asyncio.sleep(seconds)
        except BaseException as error:
            with open(text, "w") as trace:
                trace.write(type(error).__name__)
            raise
        with open(text, "w") as trace:
            trace.write("ended")

    async def count(self, text, seconds):
        await asyncio.sleep(seconds)
        return self.running

    async def fail(self, text, seconds):
        print("about to fail", flush=True)
        raise ValueError(text)

    async def context(self, text, seconds):
        await asyncio.sleep(seconds)
        return dict(cog.current_scope().context)

    async def same_loop(self, text, seconds):
        return self.loop is asyncio.get_running_loop()

    async def die(self, text, seconds):
        os._exit(7)
