"""Makes one attempt at a webhook, and decides on the next step."""

import asyncio
import email.utils
import json
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import msgspec
import structlog

from cog_adapt.server.egress import Answer, Egress, EgressError
from cog_adapt.server.errors import StorageError
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.webhooks.queue import Announcement
from cog_adapt.server.webhooks.shown_urls import shown_error
from cog_adapt.server.webhooks.signing import WebhookSigner
from cog_adapt.server.webhooks.turns import Turns

_AGAIN = (429, 500, 502, 503, 504)
_LONGEST_DELAY = 102.0
DELAYS = tuple(min(0.2 * 2**n, _LONGEST_DELAY) for n in range(12))
_PAUSE_WITHOUT_RECORDS = 1.0
Count = Callable[[str, str], None]
_log = structlog.get_logger(__name__)


class DeliveryRecords(Protocol):
    """The methods of `Records` that deliveries need."""

    async def due_deliveries(
        self,
        now: datetime,
        limit: int,
        but: Collection[str] = (),
        but_owners: Collection[str] = (),
    ) -> list[Delivery]:
        """Return pending deliveries that are due, oldest first, without these ids and owners."""
        ...

    async def update_delivery(self, delivery: Delivery) -> None:
        """Store the state after an attempt."""
        ...


class _Message(NamedTuple):
    url: str
    body: bytes
    headers: Mapping[str, str]


class Deliverer:
    """Posts webhooks. A delivery must be claimed first, so two attempts at it never overlap.

    Args:
        records: stores deliveries.
        egress: sends the requests.
        signer: makes the headers.
        timeout: seconds that a receiver may take to answer.
        count: called with the event and the outcome of each attempt.
    """

    def __init__(
        self,
        records: DeliveryRecords,
        egress: Egress,
        signer: WebhookSigner,
        timeout: float,
        count: Count,
    ) -> None:
        self._records = records
        self._egress = egress
        self._signer = signer
        self._timeout = timeout
        self._count = count
        self._turns = Turns()
        self._claimed: set[str] = set()
        self._claimed_since: set[str] = set()

    def claim(self, delivery: Delivery) -> bool:
        """Claim the delivery. Return whether it was free; then the caller must call `deliver`."""
        if delivery.id in self._claimed:
            return False
        self._claimed.add(delivery.id)
        self._claimed_since.add(delivery.id)
        return True

    def release(self, delivery: Delivery) -> None:
        """Give up a claim without an attempt."""
        self._claimed.discard(delivery.id)

    async def find_due(self, limit: int, but_owners: Collection[str] = ()) -> list[Delivery]:
        """Return due deliveries, except any that were claimed while they were read.

        Args:
            limit: the most deliveries.
            but_owners: owners to leave out.
        """
        # an attempt may end while the rows are read, which are then older than the attempt
        self._claimed_since = set(self._claimed)
        try:
            due = await self._records.due_deliveries(
                now=datetime.now(UTC), limit=limit, but=self._claimed_since, but_owners=but_owners
            )
        except StorageError:
            return []
        return [each for each in due if each.id not in self._claimed_since]

    async def announce(self, announcement: Announcement) -> None:
        """Send an announcement once."""
        record_id, event = announcement.record_id, announcement.event
        message = _Message(announcement.url, announcement.body, announcement.headers)
        outcome = await self._post(str(uuid.uuid4()), message, announcement.owner)
        is_received = isinstance(outcome, Answer) and 200 <= outcome.status < 300
        self._count(event, "delivered" if is_received else "failed")
        if not is_received:
            _log.info("a webhook was not received", prediction_id=record_id, webhook_event=event)

    async def deliver(self, delivery: Delivery, delays: Sequence[float]) -> Delivery:
        """Attempt a claimed delivery, and store the outcome.

        Args:
            delivery: the latest state.
            delays: seconds until each further attempt.
        """
        try:
            headers = json.loads(delivery.headers)
            message = _Message(delivery.url, delivery.body.encode(), headers)
            outcome = await self._post(delivery.id, message, delivery.owner)
            noted = note_attempt(
                delivery=delivery, outcome=outcome, now=datetime.now(UTC), delays=delays
            )
            self._count(noted.event, "retry" if noted.state == "pending" else noted.state)
            await self._save(noted)
        finally:
            self._claimed.discard(delivery.id)
        if noted.state == "failed":
            _log.warning(
                "a webhook was given up",
                prediction_id=noted.record_id,
                attempts=noted.attempts,
                error=noted.last_error,
            )
        return noted

    async def _post(self, webhook_id: str, message: _Message, owner: str) -> Answer | Exception:
        url, body, more = message
        async with self._turns.take(owner, url) as turn:
            headers = self._signer.write_headers(
                webhook_id=webhook_id, body=body, now=datetime.now(UTC), more=more
            )
            try:
                return await self._egress.post(url, body, headers, timeout=self._timeout)
            except (OSError, EgressError) as error:
                turn.rests = True
                return error

    async def _save(self, delivery: Delivery) -> None:
        # the delivery stays claimed until it is saved, so that it is not sent twice
        while True:
            try:
                return await self._records.update_delivery(delivery)
            except StorageError:
                await asyncio.sleep(_PAUSE_WITHOUT_RECORDS)


def note_attempt(
    delivery: Delivery, outcome: Answer | Exception, now: datetime, delays: Sequence[float]
) -> Delivery:
    """Return the delivery after one more attempt.

    Args:
        delivery: the state before the attempt.
        outcome: the receiver's answer, or the error.
        now: the time in UTC.
        delays: seconds until each further attempt. A delivery fails once all delays are used up, or
            immediately if the receiver refuses the delivery or has a forbidden address.
    """
    changes: dict[str, object] = {
        "attempts": delivery.attempts + 1,
        "state": "delivered" if delivery.delivered_at else "failed",
        "next_attempt_at": None,
        "last_status": outcome.status if isinstance(outcome, Answer) else None,
        "last_error": _error_of(outcome, delivery.url),
    }
    if isinstance(outcome, Answer) and 200 <= outcome.status < 300:
        changes |= {"state": "delivered", "delivered_at": now}
    elif _is_passing(outcome) and delivery.attempts < len(delays):
        delay = max(delays[delivery.attempts], _read_retry_after(outcome, now))
        changes |= {"state": "pending", "next_attempt_at": now + timedelta(seconds=delay)}
    return msgspec.structs.replace(delivery, **changes)


def _error_of(outcome: Answer | Exception, url: str) -> str | None:
    """Return the error as its owner may see it; None if the receiver took the webhook."""
    if isinstance(outcome, Exception):
        return shown_error(str(outcome), url)
    return None if 200 <= outcome.status < 300 else f"the receiver answered {outcome.status}"


def _is_passing(outcome: Answer | Exception) -> bool:
    if isinstance(outcome, Answer):
        return outcome.status in _AGAIN
    return not isinstance(outcome, EgressError)


def _read_retry_after(outcome: Answer | Exception, now: datetime) -> float:
    text = outcome.headers.get("retry-after", "") if isinstance(outcome, Answer) else ""
    if text.isascii() and text.isdigit():
        return min(float(text), _LONGEST_DELAY)
    try:
        moment = email.utils.parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return min((moment - now).total_seconds(), _LONGEST_DELAY)
