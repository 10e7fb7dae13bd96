"""Clients that carry each request to its end, whatever is killed meanwhile."""

import asyncio
import random
from collections.abc import Callable, Sequence

import httpx2

from bench.storm.asking import PAUSE, Asking
from bench.storm.outcome import FINAL, Outcome
from bench.storm.requests import Planned
from bench.storm.spies import Spy
from bench.storm.streams import EventReader

MOST_SECONDS = 400.0
_MOST_SECONDS_AGAIN = 60.0
_LOOK_SECONDS = 0.1


class Clients:
    """The clients of a storm.

    Args:
        url: of the proxy.
        seed: of the random pauses.
        in_flight: the most requests at once.

    Attributes:
        outcomes: what each client saw.
        spy: looks at other owners' records meanwhile.
    """

    def __init__(self, url: str, seed: int, in_flight: int) -> None:
        self._draw = random.Random(seed)
        self._room = asyncio.Semaphore(in_flight)
        self._client = httpx2.AsyncClient(
            base_url=url,
            timeout=httpx2.Timeout(120.0, connect=5.0),
            limits=httpx2.Limits(max_connections=2 * in_flight),
            trust_env=False,
        )
        self.outcomes: list[Outcome] = []
        self.spy = Spy(self._client, self.outcomes, random.Random(seed + 1))

    async def run(self, planned: Sequence[Planned], share: Callable[[], float]) -> None:
        """Send all requests, as many at once as may be in flight; return once all have ended.

        Args:
            planned: the requests.
            share: returns which share of them may be sent by now.
        """
        spying = asyncio.create_task(self.spy.run())
        async with asyncio.TaskGroup() as group:
            for number, each in enumerate(planned, 1):
                await _until(share, number / len(planned))
                await self._room.acquire()
                outcome = Outcome(each)
                self.outcomes.append(outcome)
                group.create_task(self._carry(outcome))
        spying.cancel()

    async def look_again(self) -> None:
        """Ask for every record once more, and note its end."""
        for outcome in self.outcomes:
            await self._look_again(outcome)

    async def _look_again(self, outcome: Outcome) -> None:
        try:
            async with asyncio.timeout(_MOST_SECONDS_AGAIN):
                await self._find(outcome)
                await self._until_final(outcome)
        except TimeoutError:
            outcome.broken.append("no end, though nothing is killed any more")

    async def _find(self, outcome: Outcome) -> None:
        """Find what a client has put before it gave up."""
        if outcome.is_late and not outcome.was_accepted:
            response = await self._asking(outcome).send("GET", outcome.planned.path)
            outcome.was_accepted = response.status_code == 200
            if not outcome.was_accepted:
                outcome.broken.append(f"was not accepted within {MOST_SECONDS:g} s")

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    def _asking(self, outcome: Outcome) -> Asking:
        return Asking(self._client, outcome)

    async def _carry(self, outcome: Outcome) -> None:
        try:
            async with asyncio.timeout(MOST_SECONDS):
                await self._ask_and_follow(outcome)
        except TimeoutError:
            outcome.is_late = True
        finally:
            self._room.release()

    async def _ask_and_follow(self, outcome: Outcome) -> None:
        await self._put(outcome)
        if outcome.planned.purpose == "stream" and outcome.was_accepted:
            await EventReader(self._client, outcome).read()
        if outcome.planned.purpose == "cancel":
            await self._cancel(outcome)
        await self._until_final(outcome)

    async def _put(self, outcome: Outcome) -> None:
        planned = outcome.planned
        prefer = "" if planned.waits else "respond-async"
        response = await self._asking(outcome).send(
            "PUT", planned.path, body=planned.body, prefer=prefer
        )
        if response.status_code not in (200, 201, 202):
            outcome.broken.append(f"PUT {response.status_code}: {response.text[:200]}")
            return
        outcome.was_accepted = True
        if (body := response.json())["status"] in FINAL:
            outcome.note_end(body)

    async def _cancel(self, outcome: Outcome) -> None:
        await asyncio.sleep(self._draw.uniform(0.0, 2.0))
        path = f"{outcome.planned.path}/cancel"
        outcome.cancel = (await self._asking(outcome).send("POST", path)).status_code

    async def _until_final(self, outcome: Outcome) -> None:
        while outcome.was_accepted:
            response = await self._asking(outcome).send("GET", outcome.planned.path)
            if response.status_code != 200:
                outcome.broken.append(f"GET {response.status_code}: {response.text[:200]}")
                return
            if response.json()["status"] in FINAL:
                outcome.note_end(response.json())
                return
            await asyncio.sleep(PAUSE)


async def _until(share: Callable[[], float], wanted: float) -> None:
    while share() < wanted:
        await asyncio.sleep(_LOOK_SECONDS)
