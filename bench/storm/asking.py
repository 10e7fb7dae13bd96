"""Requests that are sent again until a server answers."""

import asyncio
import contextlib
from dataclasses import dataclass
from typing import Any

import httpx2

from bench.storm.outcome import Outcome
from bench.storm.servers import OWNERS

AGAIN = (429, 500, 502, 503, 504)
PAUSE = 0.5


def headers_of(owner: str, **more: str) -> dict[str, str]:
    """Return headers with an owner's key."""
    return {"Authorization": f"Bearer {OWNERS[owner]}"} | more


@dataclass(frozen=True)
class Asking:
    """Requests of one client, each sent again until a server answers.

    Attributes:
        client: connections to the proxy.
        outcome: counts the answers after which a request was sent again.
    """

    client: httpx2.AsyncClient
    outcome: Outcome

    async def send(
        self, method: str, path: str, *, body: dict[str, Any] | None = None, prefer: str = ""
    ) -> httpx2.Response:
        """Send a request with the owner's key; return the first answer that is one."""
        more = {"Prefer": prefer} if prefer else {}
        headers = headers_of(self.outcome.planned.owner, **more)
        while True:
            status, response = 0, None
            with contextlib.suppress(httpx2.TransportError):
                response = await self.client.request(method, path, headers=headers, json=body)
                status = response.status_code
            if response is not None and status not in AGAIN:
                return response
            self.outcome.refused[status] += 1
            await asyncio.sleep(PAUSE)
