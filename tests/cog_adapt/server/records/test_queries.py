"""Webhooks that are owed."""

import asyncio
from datetime import timedelta

import msgspec

from gradient_check.tests.present import present
from tests.cog_adapt.server.records.home import START, make_delivery, make_record


def ids(deliveries) -> list[str]:
    return [delivery.id for delivery in deliveries]


def test_a_delivery_comes_back_as_it_was_saved(home):
    delivery = make_delivery(
        1,
        body='{"output":"ö"}',
        headers='{"traceparent":"00-1"}',
        state="failed",
        attempts=3,
        next_attempt_at=None,
        last_status=500,
        last_error="HTTP 500",
        delivered_at=START,
    )

    async def story():
        async with home.opened(blob_bytes=10) as records:
            new = msgspec.structs.replace(delivery, attempts=0)
            await records.save_durably(make_record(1), [new])
            await records.update_delivery(delivery)
            kept = msgspec.structs.replace(delivery, server=records.server)
            assert await records.deliveries("r1", "predict") == [kept]
            assert await records.deliveries("r1", "train") == []

    asyncio.run(story())


def test_due_ones_come_oldest_first_and_no_others(home):
    async def story():
        async with home.opened() as records, home.opened() as other:
            owed = [make_delivery(number) for number in (3, 1, 2)]
            deferred = make_delivery(4, next_attempt_at=START + timedelta(seconds=150))
            done = make_delivery(5, state="delivered")
            records.save(make_record(1), [*owed, deferred, done])
            await other.save_durably(make_record(2), [make_delivery(6)])
            now = START + timedelta(minutes=1)
            assert ids(await records.due_deliveries(now, 10)) == ["d1", "d2", "d3"]
            assert ids(await records.due_deliveries(now, 1)) == ["d1"]
            assert ids(await records.due_deliveries(now, 1, {"d1", "d3"})) == ["d2"]
            assert await records.due_deliveries(now, 9, {"d1", "d2", "d3"}) == []
            assert await records.due_deliveries(now, 9, (), {""}) == []
            set_back = now - timedelta(hours=3)  # no attempt is planned so far ahead
            assert ids(await records.due_deliveries(set_back, 9)) == ["d1", "d2", "d3", "d4"]
            assert ids(await records.due_deliveries(now, 9, (), {"ann"})) == ["d1", "d2", "d3"]
            assert ids(await other.due_deliveries(now, 10)) == ["d6"]

    asyncio.run(story())


def test_an_updated_delivery_is_no_longer_due(home):
    async def story():
        async with home.opened() as records:
            await records.save_durably(make_record(1), [make_delivery(1)])
            (due,) = await records.due_deliveries(START + timedelta(minutes=1), 10)
            done = msgspec.structs.replace(
                due, state="delivered", next_attempt_at=None, attempts=1, last_status=200
            )
            await records.update_delivery(done)
            assert await records.due_deliveries(START + timedelta(minutes=1), 10) == []
            assert await records.deliveries("r1", "predict") == [done]

    asyncio.run(story())


def test_any_server_may_deliver_again_what_another_one_finished(home):
    async def story():
        async with home.opened() as one, home.opened() as other:
            await one.save_durably(make_record(1), [make_delivery(1, state="failed")])
            await other.update_delivery(make_delivery(1, state="pending"))
            due = await other.due_deliveries(START + timedelta(minutes=1), 10)
            assert ids(due) == ["d1"]
            await one.update_delivery(make_delivery(1, state="delivered"))
            assert ids(await other.due_deliveries(START + timedelta(minutes=1), 10)) == ["d1"]

    asyncio.run(story())


def test_a_record_is_found_while_it_waits_and_when_it_is_written(home):
    async def story():
        async with home.opened() as records:
            records.save(make_record(1, status="processing"))
            assert (await records.get("r1", "predict")).status == "processing"
            await records.save_durably(make_record(2))
            assert (await records.get("r1", "predict")).status == "processing"
            assert (await records.get("r2", "predict")).server == records.server
            assert await records.get("r2", "train") is None

    asyncio.run(story())


def test_a_page_holds_all_that_was_saved_before(home):
    async def story():
        async with home.opened() as records:
            records.save(make_record(1, status="failed"))
            records.save(make_record(2))
            records.save(make_record(3, kind="train"))
            assert ids((await records.page("predict")).records) == ["r2", "r1"]
            assert ids((await records.page("predict", ["failed"])).records) == ["r1"]
            records.save(make_record(4))
            first = await records.page("predict", limit=1)
            assert ids(first.records) == ["r4"]
            second = await records.page("predict", cursor=first.next_cursor)
            assert ids(second.records) == ["r2", "r1"]

    asyncio.run(story())


def test_a_page_has_at_most_a_hundred_records_unless_more_are_asked_for(home):
    async def story():
        async with home.opened() as records:
            for number in range(101):
                records.save(make_record(number))
            assert len((await records.page("predict")).records) == 100
            assert len((await records.page("predict", limit=101)).records) == 101

    asyncio.run(story())


def test_deliveries_hold_all_that_was_saved_before(home):
    async def story():
        async with home.opened() as records:
            records.save(make_record(1), [make_delivery(1)])
            assert ids(await records.deliveries("r1", "predict")) == ["d1"]
            records.save(make_record(2), [make_delivery(2)])
            due = make_delivery(2).next_attempt_at
            assert ids(await records.due_deliveries(due, 10)) == ["d1", "d2"]
            assert ids(await records.due_deliveries(present(due) - timedelta(seconds=1), 10)) == [
                "d1"
            ]

    asyncio.run(story())
