"""Requests to a runner of letters, as `few_shot.answer` gets them."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

from cog_adapt.runner.config import Recipe
from cog_adapt.runner.request import Request
from cog_adapt.runner.requests.few_shot import answer
from tests.cog_adapt.models import Letters

FEW = Recipe(max_steps=3, learning_rate=0.02)
LOW_HIGH = {"low": ["aa", "ab", "ac"], "high": ["ya", "yb", "yc"]}
EXAMPLES = json.dumps(LOW_HIGH)
TEXTS = ["ab", "yc", "mm"]


class Counting(Letters):
    """Counts the losses whose gradients were computed."""

    def __init__(self) -> None:
        self.trained = [0]

    def spoiled(self, losses):
        if losses.requires_grad:
            losses.register_hook(self._count)
        return super().spoiled(losses)

    def _count(self, _gradient):
        self.trained[0] += 1


class Asker:
    """Asks a runner, and keeps the metrics of its requests by name, in their order."""

    def __init__(self, runner, owner=None):
        self.runner, self.owner = runner, owner
        self.metrics: list[tuple[str, Any]] = []

    def values(self, name):
        """What was recorded under a name."""
        return [value for key, value in self.metrics if key == f"adaptation.{name}"]

    async def ask(self, examples=EXAMPLES, recipe=FEW, on_metric=None, **more):
        """One request."""

        def record(name, value):
            self.metrics.append((name, value))
            if on_metric:
                on_metric(name, value)

        context = {"owner": self.owner} if self.owner else {}
        scope = SimpleNamespace(context=context, record_metric=record)
        defaults = {"inputs": TEXTS, "examples": examples, "recipe": recipe}
        return await answer(self.runner, Request(**(defaults | more)), scope)

    def now(self, *args, **more):
        """The answer to one request alone."""
        return asyncio.run(self.ask(*args, **more))
