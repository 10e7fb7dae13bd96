"""The stored form of a prediction or training, and of a webhook about it."""

from datetime import datetime
from typing import Final, Literal

import msgspec

from cog_adapt.server.protocol import Kind

RecordStatus = Literal["starting", "processing", "succeeded", "failed", "canceled"]
DeliveryState = Literal["pending", "delivered", "failed"]
UNFINISHED: Final = ("starting", "processing")
FINISHED: Final = ("succeeded", "failed", "canceled")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """One prediction or training. Times are UTC, with a time zone.

    Attributes:
        id: unique within its kind and owner.
        owner: empty if no keys are set.
        input: the JSON of its inputs with secrets redacted. In a page, a large one is only a
            reference, `{"stored":"sha256:…"}`; so are output and logs.
        payload: everything needed to run it again, as JSON; None once it has finished.
        input_digest: SHA-256 of its canonical input in hex, to recognise a repeated PUT.
        webhook_events: the events that the webhook gets; None without a webhook.
        server: the server that works on it; set by `Records`, which ignores a caller's value.
        retries_left: the number of further runs if its server dies.
        deadline: the time at which it is canceled.
        origin: what a request of another protocol named, as JSON; None for Cog's.
        movable: whether an idle server may take it while it waits: its record suffices to run it,
            and no client waits at this server's connection. None in rows of earlier releases.
    """

    id: str
    kind: Kind
    status: RecordStatus
    created_at: datetime
    started_at: datetime | None = None
    completed_at: datetime | None = None
    input: str | None = None
    payload: str | None = None
    input_digest: str | None = None
    output: str | None = None
    logs: str = ""
    metrics: str = "{}"
    error: str | None = None
    webhook: str | None = None
    webhook_events: tuple[str, ...] | None = None
    server: str | None = None
    retries_left: int = 0
    deadline: datetime | None = None
    origin: str | None = None
    movable: bool | None = None
    owner: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """Kind, id and owner: unique together."""
        return self.kind, self.id, self.owner

    @property
    def is_finished(self) -> bool:
        """Whether the status is final."""
        return self.status in FINISHED


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One webhook: pending, delivered, or failed for good.

    Attributes:
        id: a UUID, also the `webhook-id` header of each attempt.
        record_id: with `kind` and `owner`, the record that it is about.
        event: start, output, logs or completed.
        body: the JSON to send, byte for byte the same in each attempt.
        headers: additional request headers as a JSON object, such as `traceparent`.
        next_attempt_at: the earliest time of the next attempt; None once it is not pending.
        last_status: the HTTP status of the last answer.
        last_error: the reason why the last attempt failed.
        server: the server that sends it; set by `Records`.
    """

    id: str
    record_id: str
    kind: Kind
    event: str
    url: str
    body: str
    created_at: datetime
    headers: str = "{}"
    state: DeliveryState = "pending"
    attempts: int = 0
    next_attempt_at: datetime | None = None
    last_status: int | None = None
    last_error: str | None = None
    delivered_at: datetime | None = None
    server: str | None = None
    owner: str = ""

    @property
    def key_of_record(self) -> tuple[str, str, str]:
        """The key of the record that it is about."""
        return self.kind, self.record_id, self.owner


class Page(msgspec.Struct, frozen=True):
    """Some records, newest first; the cursor is None at the end."""

    records: list[Record]
    next_cursor: str | None = None
