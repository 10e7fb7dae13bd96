"""Old records go, with all that belongs to them."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from tests.cog_adapt.server.records.home import make_delivery, make_record

YEARS = timedelta(days=36500)


async def names_of(records, kind="predict") -> list[str]:
    return [record.id for record in (await records.page(kind)).records]


def test_finished_records_go_by_age(home):
    now = datetime.now(UTC)

    async def story():
        async with home.opened() as records:
            for number in range(4):
                ended = now - timedelta(days=number)
                records.save(make_record(number, created_at=ended, completed_at=ended))
            assert await records.prune(timedelta(days=1.5), 100) == 2
            assert await names_of(records) == ["r0", "r1"]

    asyncio.run(story())


def test_each_kind_keeps_its_newest(home, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.retention.ROWS_AT_ONCE", 2)

    async def story():
        async with home.opened() as records:
            for number in range(9):
                records.save(make_record(number))
            records.save(make_record(0, kind="train"))
            assert await records.prune(YEARS, 3) == 6
            assert await names_of(records) == ["r8", "r7", "r6"]
            assert await names_of(records, "train") == ["r0"]

    asyncio.run(story())


@pytest.mark.parametrize("count", [0, 100])
def test_what_is_unfinished_or_owed_stays(home, count):
    async def story():
        async with home.opened() as records:
            old = make_record().created_at
            records.save(make_record(1, status="processing"))
            records.save(make_record(2, status="starting"))
            records.save(make_record(3, completed_at=old), [make_delivery(3)])
            records.save(make_record(4, completed_at=old), [make_delivery(4, state="failed")])
            assert await records.prune(timedelta(days=-1), count) == 1
            assert await names_of(records) == ["r3", "r2", "r1"]
            assert await records.deliveries("r4", "predict") == []

    asyncio.run(story())


def test_files_that_no_record_names_go_after_an_hour(home):
    first, second, body = ('"' + letter * 99 + '"' for letter in "abc")

    async def story():
        async with home.opened(blob_bytes=50) as records:
            records.save(make_record(1, input=first))
            records.save(make_record(2, input=first, output=second, logs=first, payload=first))
            delivery = make_delivery(3, body=body, state="delivered")
            records.save(make_record(3), [delivery])
            await records.page("predict")
            assert len(home.texts()) == 3
            await records.prune(YEARS, 2)
            home.make_texts_old()
            await records.prune(YEARS, 2)
            assert len(home.texts()) == 3
            await records.prune(YEARS, 1)
            assert home.texts() == [body]

    asyncio.run(story())


def test_a_young_file_is_left_for_the_row_that_may_be_on_its_way(home):
    async def story():
        async with home.opened(blob_bytes=50) as records:
            await records.save_durably(make_record(1, input='"' + "a" * 99 + '"'))
            assert await records.prune(YEARS, 0) == 1
            assert len(home.texts()) == 1

    asyncio.run(story())


def test_an_old_record_takes_no_other_owners_with_it(home):
    """Nor its deliveries."""
    past, now = make_record().created_at, datetime.now(UTC)
    old = make_record(1, owner="ann", created_at=past, completed_at=past)
    new = make_record(1, owner="bob", created_at=now, completed_at=now)

    async def story():
        async with home.opened() as records:
            for number, record in enumerate((old, new)):
                delivery = make_delivery(
                    number, record_id="r1", owner=record.owner, state="delivered"
                )
                await records.save_durably(record, [delivery])
            assert await records.prune(datetime.now(UTC) - past - timedelta(seconds=1), 100) == 1
            assert await records.get("r1", "predict", "ann") is None
            assert await records.get("r1", "predict", "bob") is not None
            assert await records.deliveries("r1", "predict", "ann") == []
            assert len(await records.deliveries("r1", "predict", "bob")) == 1

    asyncio.run(story())
