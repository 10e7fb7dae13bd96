"""How much of the disk the records take."""

import asyncio
import math
from datetime import timedelta

import pytest

from cog_adapt.server.errors import DiskFull
from cog_adapt.server.records.retention import delete_oldest
from cog_adapt.server.records.space import RecordSpace
from cog_adapt.server.settings import Settings
from tests.cog_adapt.server.records.home import make_record

YEARS = timedelta(days=36500)


def test_what_has_no_room_is_refused_in_words():
    space = RecordSpace(1000)
    space.set(880)
    space.refuse_if_full(20)
    assert not space.low.is_set()
    space.refuse_if_full(21)
    assert space.low.is_set()
    with pytest.raises(DiskFull, match=r"880 bytes are on disk and 121 more exceed 1000 .*RECORD_"):
        space.refuse_if_full(121)
    space.add(100)
    with pytest.raises(DiskFull):
        space.refuse_if_full(21)


def test_without_a_setting_half_of_what_is_free_or_used_is_the_limit():
    space = RecordSpace(None, free=1000)
    assert space.most == math.inf
    for used in (200, 900):
        space.set(used)
        assert space.most == 600
    assert space.excess == 360
    assert RecordSpace().excess == 0
    assert RecordSpace.of(Settings(record_bytes=7)).most == 7
    assert RecordSpace.of(Settings(record_bytes=7, strict_cog=True)).most == math.inf


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
            records.space.most = records.space.used - 1_000_000
            removed = await records.prune(YEARS, 100)
            left = [record.id for record in (await records.page("predict")).records]
            assert left == [f"r{number}" for number in range(19, removed - 1, -1)]
            assert 8 <= removed <= 14
            assert records.space.excess == 0
            assert await records.prune(YEARS, 100) == 0

    asyncio.run(story())


def test_a_file_that_another_record_names_stays(home, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.store.SHORT_GRACE_SECONDS", -1)

    async def story():
        async with home.opened() as records:
            same = '"' + "x" * 100_000 + '"'
            await records.save_durably(make_record(1, output=same))
            await records.save_durably(make_record(2, output=same, status="processing"))
            records.space.most = 1
            assert await records.prune(YEARS, 100) == 1
            assert (await records.get("r2", "predict")).output == same

    asyncio.run(story())


def test_what_gives_way_is_one_owners_and_not_anothers_of_the_same_id(home):
    async def story():
        async with home.opened() as records:
            await records.save_durably(make_record(1, owner="ann"))
            later = make_record(2).created_at
            await records.save_durably(make_record(1, owner="bob", created_at=later))
            removed = await records._writer.call(delete_oldest)
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
