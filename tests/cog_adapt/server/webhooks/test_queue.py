from datetime import UTC, datetime

from cog_adapt.server.records.record import Delivery
from cog_adapt.server.webhooks.queue import Announcement, WebhookQueue
from gradient_check.tests.present import present

MEGABYTE = 2**20


def announcement(event, body=b""):
    return Announcement("predict", "p", event, "http://a/", body)


def delivery(name):
    return Delivery(
        id=name, record_id="p", kind="predict", event="completed", url="u", body="{}",
        created_at=datetime(2026, 11, 21, tzinfo=UTC),
    )  # fmt: skip


def taken(queue, now=0.0):
    found = []
    while announcement := queue.take(now):
        found.append(announcement)
    return found


def test_eight_megabytes_may_wait():
    queue = WebhookQueue()
    for number in range(8):
        queue.put(announcement("output", bytes([number]) * MEGABYTE))
    queue.put(announcement("logs", b"x"))
    assert [each.body[0] for each in taken(queue)] == [1, 2, 3, 4, 5, 6, 7, ord("x")]


def test_the_newest_stays_however_large_it_is():
    queue = WebhookQueue()
    queue.put(announcement("start"))
    queue.put(announcement("output", b"small"))
    queue.put(announcement("output", bytes(9 * MEGABYTE)))
    assert [len(each.body) for each in taken(queue)] == [0, 9 * MEGABYTE]


def test_what_was_taken_makes_room():
    queue = WebhookQueue()
    for _ in range(3):
        queue.put(announcement("output", bytes(7 * MEGABYTE)))
        assert len(taken(queue)) == 1
    queue.put(announcement("output", bytes(4 * MEGABYTE)))
    queue.put(announcement("logs", bytes(4 * MEGABYTE)))
    assert len(taken(queue)) == 2


def test_a_dropped_announcement_makes_room():
    queue = WebhookQueue()
    for size in (5, 5, 3):
        queue.put(announcement("output", bytes(size * MEGABYTE)))
    assert [len(each.body) // MEGABYTE for each in taken(queue)] == [5, 3]


def test_when_its_time_is_over_the_delivery_waits_no_longer():
    queue = WebhookQueue()
    for event in ("start", "logs", "output"):
        queue.put(announcement(event, bytes(3 * MEGABYTE)))
    queue.finish(delivery("a"), 10)
    assert present(queue.take(9.9)).event == "start"
    assert queue.take(10) is None
    assert present(queue.take_last()).id == "a"
    for event in ("logs", "output"):  # of a later run of the same id
        queue.put(announcement(event, bytes(4 * MEGABYTE)))
    assert [each.event for each in taken(queue, 20)] == ["logs", "output"]


def test_a_second_delivery_keeps_the_end():
    queue = WebhookQueue()
    queue.finish(delivery("a"), 10)
    queue.finish(delivery("b"), 10)
    assert present(queue.take_last()).id == "a"
    queue.put(announcement("logs"))
    assert queue.take(10) is None
    assert present(queue.take_last()).id == "b"
    assert queue.take_last() is None
