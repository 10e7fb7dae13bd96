"""Sends webhooks in order: one at a time for each prediction, many predictions concurrently."""

import asyncio
import contextlib
import math
import time
from collections.abc import Iterator, Sequence
from functools import partial

import structlog

from cog_adapt.server.egress import Egress
from cog_adapt.server.errors import BudgetSpent, TooLarge
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.shares.budget import Budget
from cog_adapt.server.webhooks.delivery import DELAYS, Count, Deliverer, DeliveryRecords
from cog_adapt.server.webhooks.queue import Announcement, WebhookQueue
from cog_adapt.server.webhooks.retries import Retries
from cog_adapt.server.webhooks.shown_urls import shown_error
from cog_adapt.server.webhooks.signing import WebhookSigner

_log = structlog.get_logger(__name__)


class Webhooks:
    """The webhooks of one server.

    Args:
        records: stores deliveries.
        egress: sends the requests.
        signer: makes the headers.
        timeout: seconds that a receiver may take to answer, and that a delivery waits for the
            announcements before it.
        delays: seconds until each further attempt at a delivery.
        count: called with the event and the outcome of each attempt: delivered, retry or failed;
            dropped means left out because too many wait.
        held: the bytes that may wait; None: unlimited.
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
        held: Budget | None = None,
    ) -> None:
        self._count = count
        self._held = held or Budget("webhooks", "WEBHOOK_BYTES", math.inf)
        self._egress = egress
        self._deliverer = Deliverer(
            records=records, egress=egress, signer=signer, timeout=timeout, count=count
        )
        self._retries = Retries(self._deliverer, delays)
        self._timeout = timeout
        self._delays = delays
        self._queues: dict[tuple[str, str, str], WebhookQueue] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def find_fault(self, url: str) -> str | None:
        """Return why webhooks to a URL can never be sent, or None; resolve no names."""
        fault = self._egress.find_fault(url)
        return fault and shown_error(fault, url)

    async def start(self) -> None:
        """Start to send the deliveries in the database whenever they are due."""
        self._retries.start()

    def announce(self, announcement: Announcement) -> None:
        """Queue a webhook to be sent once, after the earlier ones of its prediction.

        If too many wait it is left out: the next one contains its content.
        """
        try:
            self._held.take(announcement.owner, len(announcement.body))
        except (TooLarge, BudgetSpent):
            self._count(announcement.event, "dropped")
        else:
            self._queue_of(announcement.key_of_record).put(announcement)

    def complete(self, delivery: Delivery) -> None:
        """Queue a saved delivery behind the announcements.

        Save it as pending with a `next_attempt_at` of now, so that it is found after a restart, and
        within a minute if too many wait now.
        """
        if not self._deliverer.claim(delivery):
            return
        try:
            self._held.take(delivery.owner, len(delivery.body))
        except (TooLarge, BudgetSpent) as error:
            self._deliverer.release(delivery)
            _log.warning("a webhook is late", prediction_id=delivery.record_id, error=str(error))
        else:
            end = time.monotonic() + self._timeout
            self._queue_of(delivery.key_of_record).finish(delivery, end)

    async def redeliver(self, delivery: Delivery) -> Delivery:
        """Attempt a delivery once more now, whatever its state.

        Returns:
            the delivery's new state, or the given state if another attempt is in progress.
        """
        if not self._deliverer.claim(delivery):
            return delivery
        delays = self._delays if delivery.state == "pending" else ()
        noted = await self._deliverer.deliver(delivery, delays)
        self._retries.note(noted)
        return noted

    def drop(self, kind: str, owner: str, record_id: str | None = None) -> None:
        """Drop the waiting webhooks of a record, or of all records of an owner and kind."""
        dropped = [
            delivery
            for (each, name, whose), queue in self._queues.items()
            if (each, whose) == (kind, owner) and record_id in (None, name)
            for delivery in queue.clear()
        ]
        for delivery in dropped:
            self._deliverer.release(delivery)

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

    def _queue_of(self, key: tuple[str, str, str]) -> WebhookQueue:
        if key not in self._queues:
            self._queues[key] = WebhookQueue(partial(self._held.free, key[2]))
            task = asyncio.create_task(self._send(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return self._queues[key]

    async def _send(self, key: tuple[str, str, str]) -> None:
        queue = self._queues[key]
        try:
            await self._announce_all(queue)
            while delivery := queue.take_last():
                await self._deliver(delivery)
                await self._announce_all(queue)
        finally:
            del self._queues[key]
            queue.clear()

    async def _deliver(self, delivery: Delivery) -> None:
        with _freeing(self._held, delivery.owner, len(delivery.body)):
            self._retries.note(await self._deliverer.deliver(delivery, self._delays))

    async def _announce_all(self, queue: WebhookQueue) -> None:
        while announcement := queue.take(time.monotonic()):
            with _freeing(self._held, announcement.owner, len(announcement.body)):
                await self._deliverer.announce(announcement)


@contextlib.contextmanager
def _freeing(held: Budget, owner: str, size: int) -> Iterator[None]:
    try:
        yield
    finally:
        held.free(owner, size)
