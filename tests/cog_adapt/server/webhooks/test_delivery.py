import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import msgspec
import pytest
import structlog

from cog_adapt.server.egress import Answer, EgressError
from cog_adapt.server.records.record import Delivery
from cog_adapt.server.webhooks.delivery import DELAYS, Deliverer, note_attempt
from cog_adapt.server.webhooks.queue import Announcement
from cog_adapt.server.webhooks.signing import WebhookSigner
from tests.cog_adapt.server.webhooks.stand_ins import Kept, Receiver

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def delivery(**changes):
    return Delivery(
        id="d", record_id="p", kind="predict", event="completed", body="{}", created_at=NOW,
        **{"url": "u", **changes},
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


@pytest.fixture
def anyio_backend():
    return "asyncio"


def make(receiver, records=None):
    counted = []
    signer = WebhookSigner("me", "tok")
    deliverer = Deliverer(
        records or Kept(), receiver, signer, 7.0, lambda *what: counted.append(what)
    )
    return deliverer, counted


ANNOUNCEMENT = Announcement("predict", "p", "logs", "http://a/", b"{}", {"traceparent": "00-1"})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Answer(200, {}), "delivered"),
        (Answer(299, {}), "delivered"),
        (Answer(199, {}), "failed"),
        (Answer(300, {}), "failed"),
        (OSError("down"), "failed"),
        (EgressError("private"), "failed"),
    ],
)
async def test_an_announcement_is_posted_once_and_counted(answer, outcome):
    receiver = Receiver(answer)
    deliverer, counted = make(receiver)
    with structlog.testing.capture_logs() as logged:
        await deliverer.announce(ANNOUNCEMENT)
    [(url, body, headers, timeout)] = receiver.posts
    assert (url, body, timeout) == ("http://a/", b"{}", 7.0)
    assert headers["traceparent"] == "00-1"
    assert headers["authorization"] == "Bearer tok"
    uuid.UUID(headers["webhook-id"])
    assert counted == [("logs", outcome)]
    expected = {"prediction_id": "p", "webhook_event": "logs", "log_level": "info"}
    expected["event"] = "a webhook was not received"
    assert logged == ([] if outcome == "delivered" else [expected])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "delays", "state", "counted"),
    [
        (Answer(200, {}), (1,), "delivered", "delivered"),
        (Answer(503, {}), (1,), "pending", "retry"),
        (Answer(503, {}), (), "failed", "failed"),
        (Answer(404, {}), (1,), "failed", "failed"),
        (OSError("down"), (1,), "pending", "retry"),
        (EgressError("private"), (1,), "failed", "failed"),
    ],
)
async def test_what_becomes_of_a_delivery_is_saved_counted_and_logged(
    answer, delays, state, counted
):
    receiver, records = Receiver(answer), Kept()
    deliverer, counts = make(receiver, records)
    with structlog.testing.capture_logs() as logged:
        noted = await deliverer.deliver(delivery(headers='{"traceparent": "00-2"}'), delays)
    [(url, body, headers, timeout)] = receiver.posts
    assert (url, body, timeout) == ("u", b"{}", 7.0)
    assert (headers["webhook-id"], headers["traceparent"]) == ("d", "00-2")
    assert records.saved == [noted]
    assert (noted.state, noted.attempts) == (state, 1)
    assert (noted.last_error is None) is (state == "delivered")
    assert counts == [("completed", counted)]
    given_up = {"prediction_id": "p", "attempts": 1, "error": noted.last_error}
    assert [each["event"] for each in logged] == ["a webhook was given up"] * (state == "failed")
    assert all(given_up.items() <= each.items() for each in logged)
    assert all(each["log_level"] == "warning" for each in logged)


@pytest.mark.anyio
async def test_a_delivery_that_is_cut_short_is_free_again():
    receiver = Receiver()
    deliverer, _ = make(receiver)
    receiver.open.clear()
    assert deliverer.claim(delivery())
    trying = asyncio.create_task(deliverer.deliver(delivery(), ()))
    await asyncio.sleep(0)
    trying.cancel()
    await asyncio.gather(trying, return_exceptions=True)
    assert deliverer.claim(delivery())


@pytest.mark.anyio
async def test_until_its_outcome_is_saved_a_delivery_is_nobody_elses(monkeypatch):
    claims, records = [], Kept(failures=3)
    deliverer, _ = make(Receiver(), records)
    assert deliverer.claim(delivery())

    async def pause(seconds):
        claims.append((seconds, deliverer.claim(delivery())))

    monkeypatch.setattr(asyncio, "sleep", pause)
    noted = await deliverer.deliver(delivery(), ())
    assert (claims, records.saved) == ([(1.0, False)] * 3, [noted])


@pytest.mark.anyio
async def test_due_are_those_that_nobody_claimed_before_or_while_they_were_read():
    due = [msgspec.structs.replace(delivery(), id=name) for name in "abcde"]
    records = Kept(*due)
    deliverer, _ = make(Receiver(), records)
    assert deliverer.claim(due[0])

    def claim_and_end():
        assert deliverer.claim(due[1])
        deliverer.release(due[1])  # its attempt ended while the rows were on their way

    records.while_reading = claim_and_end
    assert [each.id for each in await deliverer.find_due(2)] == ["c"]
    assert records.asked == [2]
    records.while_reading = lambda: None
    assert [each.id for each in await deliverer.find_due(2)] == ["b", "c"]


@pytest.mark.anyio
async def test_while_the_records_are_down_nothing_is_due():
    deliverer, _ = make(Receiver(), Kept(delivery(), failures=1))
    assert await deliverer.find_due(5) == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("answer", "most"),
    [(ConnectionError("refused"), 32), (EgressError("guarded"), 32), (Answer(500, {}), 99)],
)
async def test_a_host_that_nobody_reaches_is_tried_by_its_turns(answer, most, monkeypatch):
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda seconds, call: None)  # the second is not over
    receiver = Receiver(*[answer] * 99)
    deliverer, _ = make(receiver)
    owed = [delivery() for _ in range(99)]
    tasks = [asyncio.create_task(deliverer.deliver(each, ())) for each in owed]
    for _ in range(500):
        await asyncio.sleep(0)
    assert len(receiver.posts) == most
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def test_an_attempt_without_an_answer_names_its_reason_and_no_secret():
    owed = delivery(last_status=500, url="https://user:s3cret@h/")
    noted = note_attempt(owed, OSError(f"no route to {owed.url}"), NOW, DELAYS)
    assert (noted.state, noted.last_status) == ("pending", None)
    assert noted.last_error == "no route to https://h/"
