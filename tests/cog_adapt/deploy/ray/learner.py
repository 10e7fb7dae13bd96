"""A small model that a replica serves: a run waits, or learns the examples of its seed."""

import asyncio

from cog import BaseRunner

from cog_adapt import ModelRunner, Recipe, Request, RunnerSettings, answer
from tests.cog_adapt.models import Letters, examples


class Learner(BaseRunner):
    def setup(self) -> None:
        self.runner = ModelRunner(Letters(), RunnerSettings.from_environment())

    async def run(self, seed: int = 0, steps: int = 1, seconds: float = 0.0) -> str:
        await asyncio.sleep(seconds)
        if not seed:
            return "waited"
        rows = [
            {"input": each.input, "target": each.target} for each in examples("letters", 6, seed)
        ]
        request = Request(["abc"], examples=rows, recipe=Recipe(method="lora", max_steps=steps))
        return (await answer(self.runner, request, self.scope)).adapter or ""
