"""Asks for records and adapters of other owners; none may be answered."""

import asyncio
import contextlib
import random
from collections.abc import Sequence

import httpx2

from bench.storm.asking import PAUSE, headers_of
from bench.storm.outcome import Outcome
from bench.storm.servers import OWNERS


class Spy:
    """Looks at what belongs to others, from `run` on until it is cancelled.

    Args:
        client: connections to the proxy.
        outcomes: the requests so far.
        draw: chooses whom to look at.

    Attributes:
        looks: the number of its requests that were answered.
        seen: a sentence for each answer that showed another owner's.
    """

    def __init__(
        self, client: httpx2.AsyncClient, outcomes: Sequence[Outcome], draw: random.Random
    ) -> None:
        self._client = client
        self._outcomes = outcomes
        self._draw = draw
        self.looks = 0
        self.seen: list[str] = []

    async def run(self) -> None:
        """Look twice a second."""
        while True:
            await asyncio.sleep(PAUSE)
            await self._look_once()

    async def _look_once(self) -> None:
        accepted = [each.planned for each in self._outcomes if each.was_accepted]
        if not accepted:
            return
        target = self._draw.choice(accepted)
        spy = self._draw.choice([each for each in OWNERS if each != target.owner])
        for path in (target.path, f"{target.path}/events", "/predictions", "/adapters"):
            with contextlib.suppress(httpx2.TransportError):
                await self._look(spy, target.owner, path)

    async def _look(self, spy: str, owner: str, path: str) -> None:
        response = await self._client.get(path, headers=headers_of(spy), timeout=30.0)
        self.looks += 1
        if response.status_code == 200 and f"{owner}-" in response.text:
            self.seen.append(f"{spy} saw {path} of {owner}")
