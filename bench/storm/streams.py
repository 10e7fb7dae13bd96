"""Reads a run's events to their end; goes on after the last one where a connection is cut."""

import asyncio
import json

import httpx2

from bench.storm.asking import AGAIN, PAUSE, headers_of
from bench.storm.outcome import FINAL, Outcome


class EventReader:
    """Reads the events of one run.

    Args:
        client: connections to the proxy.
        outcome: notes the end.
    """

    def __init__(self, client: httpx2.AsyncClient, outcome: Outcome) -> None:
        self._client = client
        self._outcome = outcome
        self._last = ""
        self._event = ""
        self._is_over = False

    async def read(self) -> None:
        """Read to the end, over as many connections as needed."""
        while not self._is_over:
            try:
                await self._read_one_connection()
            except httpx2.TransportError:
                self._outcome.refused[0] += 1
            await asyncio.sleep(PAUSE)

    async def _read_one_connection(self) -> None:
        planned = self._outcome.planned
        more = {"Last-Event-ID": self._last} if self._last else {}
        headers = headers_of(planned.owner, **more)
        path = f"{planned.path}/events"
        async with self._client.stream("GET", path, headers=headers) as response:
            if response.status_code in AGAIN:
                self._outcome.refused[response.status_code] += 1
                return
            if response.status_code != 200:
                self._outcome.broken.append(f"events: {response.status_code}")
                self._is_over = True
                return
            async for line in response.aiter_lines():
                self._take(line)

    def _take(self, line: str) -> None:
        name, _, value = line.partition(": ")
        if name == "id":
            self._last = value
        elif name == "event":
            self._event = value
        elif name == "data" and self._event == "completed":
            self._is_over = True
            body = json.loads(value)
            if body.get("status") not in FINAL:
                self._outcome.broken.append(f"events end with {body.get('status')}")
            self._outcome.note_end(body)
