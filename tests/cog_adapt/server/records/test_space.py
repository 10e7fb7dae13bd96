"""How much of the disk the records take."""

import asyncio
import math
from datetime import timedelta

import pytest

from cog_adapt.server.errors import DiskFull
from cog_adapt.server.records import space as space_module
from cog_adapt.server.records.retention import delete_oldest
from cog_adapt.server.records.space import ELSEWHERE, RecordSpace, SpaceUse
from cog_adapt.server.settings import Settings
from tests.cog_adapt.server.records.home import make_delivery, make_record

YEARS = timedelta(days=36500)


def test_what_has_no_room_is_refused_in_words():
    space = RecordSpace(1000)
    space.set(SpaceUse(880, {}))
    space.refuse_if_full(20)
    assert not space.low.is_set()
    space.refuse_if_full(21)
    assert space.low.is_set()
    with pytest.raises(DiskFull, match=r"880 bytes are on disk and 121 more exceed 1000 .*RECORD_"):
        space.refuse_if_full(121)
    space.add({"": 100})
    with pytest.raises(DiskFull):
        space.refuse_if_full(21)


def test_without_a_setting_half_of_what_is_free_or_used_is_the_limit():
    space = RecordSpace(None, free=1000)
    assert space.most == math.inf
    for used in (200, 900):
        space.set(SpaceUse(used, {}))
        assert space.most == 600
    assert space.excess == 360
    assert RecordSpace().excess == 0
    assert RecordSpace.of(Settings(record_bytes=7)).most == 7
    assert RecordSpace.of(Settings(record_bytes=7, strict_cog=True)).most == math.inf


@pytest.mark.parametrize(("used", "most"), [(7, ELSEWHERE), (ELSEWHERE, 2 * ELSEWHERE)])
def test_the_disk_of_a_server_says_nothing_of_the_disk_of_postgresql(monkeypatch, used, most):
    url = "postgresql://database.internal/records"
    for free in (0, 2**20, 2**50):
        monkeypatch.setattr(space_module, "free_disk_bytes", lambda _, free=free: free)
        space = RecordSpace.of(Settings(database_url=url))
        space.set(SpaceUse(used, {}))
        assert (space.most, space.excess) == (most, 0)
    assert RecordSpace.of(Settings(database_url=url, record_bytes=7)).most == 7
    assert RecordSpace.of(Settings(database_url=url, disk_bytes=2**30)).most == 2**29


def test_an_owner_may_use_a_share_and_who_has_no_name_all():
    space = RecordSpace(1000, share=0.4)
    space.set(SpaceUse(500, {"ann": 300, "bob": 200}))
    space.refuse_if_full(60, "ann")
    assert (space.low.is_set(), space.largest, space.most_of_owner) == (False, 300, 400)
    space.refuse_if_full(61, "ann")
    assert space.low.is_set()
    with pytest.raises(DiskFull, match=r"your 300 bytes on disk and 101 more exceed .*400 .*SHARE"):
        space.refuse_if_full(101, "ann")
    space.refuse_if_full(101, "bob")
    space.refuse_if_full(500)
    space.add({"": 50, "ann": 70})
    assert (space.used, space.excess_by_owner) == (620, {"ann": 10})
    assert RecordSpace.of(Settings(record_bytes=10, owner_share=0.3)).most_of_owner == 3
    assert RecordSpace.of(Settings(owner_share=0.3, strict_cog=True)).most_of_owner == math.inf


def test_what_is_written_is_counted_and_then_measured(home):
    async def story():
        async with home.opened() as records:
            await records.prune(YEARS, 100)
            before = records.space.used
            await records.save_durably(make_record(1, output='"' + "x" * 200_000 + '"'))
            counted = records.space.used - before
            assert 200_000 < counted < 250_000
            await records.prune(YEARS, 100)
            assert 200_000 < records.space.used - before < 400_000

    asyncio.run(story())


def test_the_oldest_records_give_way_to_the_limit_with_their_files(home, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.store.SHORT_GRACE_SECONDS", -1)

    async def story():
        async with home.opened() as records:
            await records.prune(YEARS, 100)
            for number in range(20):
                output = f'"{number:03}{"x" * 100_000}"'
                await records.save_durably(make_record(number, output=output))
            records.space.limit(records.space.used - 1_000_000)
            removed = await records.prune(YEARS, 100)
            left = [record.id for record in (await records.page("predict")).records]
            assert left == [f"r{number}" for number in range(19, removed - 1, -1)]
            assert 8 <= removed <= 14
            assert records.space.excess == 0
            assert await records.prune(YEARS, 100) == 0

    asyncio.run(story())


def test_the_oldest_of_who_has_too_much_give_way_and_nobody_elses(home, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.store.SHORT_GRACE_SECONDS", -1)

    async def story():
        async with home.opened(space=RecordSpace(4_000_000, share=0.25)) as records:
            for number in range(20):
                output = f'"{number:03}{"x" * 100_000}"'
                owner = "ann" if number % 5 else "bob"
                await records.save_durably(make_record(number, owner=owner, output=output))
            counted = records.space.excess_by_owner
            with pytest.raises(DiskFull, match="your 16"):
                records.space.refuse_if_full(1, "ann")
            removed = await records.prune(YEARS, 100)
            assert list(counted) == ["ann"]
            assert 7 <= removed <= 9
            left = [each.id for each in (await records.page("predict", owner="ann")).records]
            numbers = [number for number in range(19, 0, -1) if number % 5]
            assert left == [f"r{number}" for number in numbers[: 16 - removed]]
            assert len((await records.page("predict", owner="bob")).records) == 4
            assert records.space.excess_by_owner == {}
            assert 700_000 < records.space.largest <= 900_000
            records.space.refuse_if_full(1, "ann")

    asyncio.run(story())


def test_rows_count_for_their_owners_with_the_pages_that_they_take(home):
    async def story():
        async with home.opened() as records:
            for number in range(200):
                owner = "ann" if number % 4 else "bob"
                record = make_record(number, owner=owner, logs="x" * 5000)
                delivery = make_delivery(number, owner=owner, body="x" * 5000)
                await records.save_durably(record, [delivery])
            await records.prune(YEARS, 1000)
            records.space.limit(0)  # so all of each owner's is too much
            by_owner = records.space.excess_by_owner
            assert sum(by_owner.values()) == pytest.approx(records.space.used, abs=2)
            assert by_owner["ann"] == pytest.approx(3 * by_owner["bob"], rel=0.02)

    asyncio.run(story())


def test_a_file_that_another_record_names_stays(home, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.store.SHORT_GRACE_SECONDS", -1)

    async def story():
        async with home.opened() as records:
            same = '"' + "x" * 100_000 + '"'
            await records.save_durably(make_record(1, output=same))
            await records.save_durably(make_record(2, output=same, status="processing"))
            records.space.limit(1)
            assert await records.prune(YEARS, 100) == 1
            assert (await records.get("r2", "predict")).output == same

    asyncio.run(story())


def test_what_gives_way_is_one_owners_and_not_anothers_of_the_same_id(home):
    async def story():
        async with home.opened() as records:
            await records.save_durably(make_record(1, owner="ann"))
            later = make_record(2).created_at
            await records.save_durably(make_record(1, owner="bob", created_at=later))
            with home.connected() as connection:
                removed = delete_oldest(connection)
            assert (removed.number, await records.get("r1", "predict", "ann")) == (1, None)
            assert await records.get("r1", "predict", "bob")

    asyncio.run(story())


def test_a_text_that_another_owner_has_written_counts_alike(home):
    async def story():
        async with home.opened() as records:
            counted = []
            for owner in ("ann", "bob"):
                before = records.space.used
                same = '"' + "x" * 100_000 + '"'
                await records.save_durably(make_record(1, owner=owner, output=same))
                counted.append(records.space.used - before)
            assert counted[0] == counted[1] > 100_000

    asyncio.run(story())
