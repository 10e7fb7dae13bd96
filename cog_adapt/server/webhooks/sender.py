"""Sends webhooks in order: one at a time for each prediction, many predictions concurrently."""

import asyncio
import time
from collections.abc import Sequence

from cog_adapt.server.egress import Egress
from cog_adapt.server.protocol import Kind
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.webhooks.delivery import DELAYS, Count, Deliverer, DeliveryRecords
from cog_adapt.server.webhooks.queue import Announcement, WebhookQueue
from cog_adapt.server.webhooks.retries import Retries
from cog_adapt.server.webhooks.signing import WebhookSigner


class Webhooks:
    """The webhooks of one server.

    Args:
        records: stores deliveries.
        egress: sends the requests.
        signer: makes the headers.
        timeout: seconds that a receiver may take to answer, and that a delivery waits for the
            announcements before it.
        delays: seconds until each further attempt at a delivery.
        count: called with the event and the outcome of each attempt: delivered, retry or failed.
    """

    def __init__(  # noqa: PLR0913 - three have defaults
        self,
        records: DeliveryRecords,
        egress: Egress,
        signer: WebhookSigner,
        *,
        timeout: float = 10.0,
        delays: Sequence[float] = DELAYS,
        count: Count = lambda event, outcome: None,
    ) -> None:
        self._egress = egress
        self._deliverer = Deliverer(records, egress, signer, timeout, count)
        self._retries = Retries(self._deliverer, delays)
        self._timeout, self._delays = timeout, delays
        self._queues: dict[tuple[Kind, str], WebhookQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find_fault(self, url: str) -> str | None:
        """Return why webhooks to a URL can never be sent, or None; resolve no names."""
        return self._egress.find_fault(url)

    async def start(self) -> None:
        """Start to send the deliveries in the database whenever they are due."""
        self._retries.start()

    def announce(self, announcement: Announcement) -> None:
        """Queue a webhook to be sent once, after the earlier ones of its prediction."""
        self._queue_of(announcement.kind, announcement.record_id).put(announcement)

    def complete(self, delivery: Delivery, owner: str = "") -> None:
        """Queue a saved delivery behind the announcements.

        Save it as pending with a `next_attempt_at` of now, so that it is found after a restart.
        """
        if self._deliverer.claim(delivery):
            end = time.monotonic() + self._timeout
            self._queue_of(delivery.kind, delivery.record_id).finish(delivery, end, owner)

    async def redeliver(self, delivery: Delivery) -> Delivery:
        """Attempt a delivery once more now, whatever its state.

        Returns:
            its new state, or the given one if another attempt is in progress.
        """
        if not self._deliverer.claim(delivery):
            return delivery
        delays = self._delays if delivery.state == "pending" else ()
        noted = await self._deliverer.deliver(delivery, delays)
        self._retries.note(noted)
        return noted

    async def drain(self, timeout: float | None) -> None:
        """Wait until each webhook was attempted, at most `timeout` seconds.

        Deliveries that need another attempt stay in the database; no new attempt starts.
        """
        await self._retries.stop()
        end = None if timeout is None else time.monotonic() + timeout
        while tasks := self._tasks | self._retries.running:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return
            await asyncio.wait(tasks, timeout=left)

    async def close(self) -> None:
        """Stop immediately; unfinished deliveries stay in the database."""
        await self._retries.stop()
        tasks = self._tasks | self._retries.running
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _queue_of(self, kind: Kind, record_id: str) -> WebhookQueue:
        key = (kind, record_id)
        if key not in self._queues:
            self._queues[key] = WebhookQueue()
            task = asyncio.create_task(self._send(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self._queues[key]

    async def _send(self, key: tuple[Kind, str]) -> None:
        queue = self._queues[key]
        try:
            await self._announce_all(queue)
            while last := queue.take_last():
                delivery, owner = last
                self._retries.note(await self._deliverer.deliver(delivery, self._delays, owner))
                await self._announce_all(queue)
        finally:
            del self._queues[key]

    async def _announce_all(self, queue: WebhookQueue) -> None:
        while announcement := queue.take(time.monotonic()):
            await self._deliverer.announce(announcement)
