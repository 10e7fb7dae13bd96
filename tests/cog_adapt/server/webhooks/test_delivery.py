from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from cog_adapt.server.egress import Answer, EgressError
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.webhooks.delivery import DELAYS, note_attempt

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def delivery(**changes):
    return Delivery(
        id="d", record_id="p", kind="predict", event="completed", url="u", body="{}",
        created_at=NOW, **changes,
    )  # fmt: skip


def delay_after(outcome, attempts=0):
    noted = note_attempt(delivery(attempts=attempts), outcome, NOW, DELAYS)
    return noted.next_attempt_at and (noted.next_attempt_at - NOW).total_seconds()


def test_there_are_twelve_retries_with_doubling_delays():
    delays = [delay_after(OSError("down"), attempts) for attempts in range(14)]
    assert delays[:4] == [0.2, 0.4, 0.8, 1.6]
    assert delays[8:] == [51.2, 102, 102, 102, None, None]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7),
        ("0", 0.2),
        ("100000", 102),
        ("9" * 500, 102),
        (format_datetime(NOW + timedelta(seconds=30), usegmt=True), 30),
        (format_datetime(NOW - timedelta(days=1), usegmt=True), 0.2),
        ("Sat, 21 Nov 2026 00:00:30 -0000", 30),
        ("Sat, 21 Nov 99999999999999999999 00:00:30 GMT", 0.2),
        ("soon", 0.2),
        ("-5", 0.2),
        ("٣", 0.2),
    ],
)
def test_retry_after_is_honoured_up_to_the_longest_delay(text, seconds):
    assert delay_after(Answer(503, {"retry-after": text})) == seconds


def test_a_refused_address_gets_no_retry():
    assert delay_after(EgressError("private")) is None


def test_a_pending_delivery_that_was_received_once_does_not_end_as_failed():
    noted = note_attempt(delivery(delivered_at=NOW), Answer(404, {}), NOW, DELAYS)
    assert (noted.state, noted.delivered_at) == ("delivered", NOW)
