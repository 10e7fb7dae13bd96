"""Records page by page."""

import asyncio
import base64
from datetime import UTC, datetime, timedelta

import pytest

from cog_adapt.server.errors import InputError
from tests.cog_adapt.server.records.home import START, make_record


def names(page) -> str:
    return " ".join(record.id for record in page.records)


def test_pages_go_to_the_oldest(home):
    async def story():
        async with home.opened() as records:
            for number in range(5):
                records.save(make_record(number))
            first = await records.page("predict", limit=2)
            second = await records.page("predict", cursor=first.next_cursor, limit=2)
            third = await records.page("predict", cursor=second.next_cursor, limit=2)
            assert [names(page) for page in (first, second, third)] == ["r4 r3", "r2 r1", "r0"]
            assert third.next_cursor is None
            whole = await records.page("predict", limit=5)
            assert (names(whole), whole.next_cursor) == ("r4 r3 r2 r1 r0", None)

    asyncio.run(story())


def test_records_of_the_same_moment_are_each_listed_once(home):
    async def story():
        async with home.opened() as records:
            for number in range(7):
                records.save(make_record(number, created_at=START))
            seen, cursor = [], None
            for _ in range(4):
                page = await records.page("predict", cursor=cursor, limit=2)
                seen += [record.id for record in page.records]
                cursor = page.next_cursor
            assert seen == [f"r{number}" for number in reversed(range(7))]
            assert cursor is None

    asyncio.run(story())


def test_new_records_do_not_move_the_next_page(home):
    async def story():
        async with home.opened() as records:
            for number in range(4):
                records.save(make_record(number))
            first = await records.page("predict", limit=2)
            records.save(make_record(9))
            assert names(await records.page("predict", cursor=first.next_cursor)) == "r1 r0"

    asyncio.run(story())


def test_a_page_has_one_kind_and_the_wanted_statuses(home):
    async def story():
        async with home.opened() as records:
            for number, status in enumerate(("starting", "failed", "canceled", "succeeded")):
                records.save(make_record(number, status=status))
                records.save(make_record(number, status=status, kind="train"))
            page = await records.page("train", ("failed", "succeeded"))
            assert names(page) == "r3 r1"
            assert {record.kind for record in page.records} == {"train"}

    asyncio.run(story())


BAD = ["", "x", "é", "!!!!", *(base64.b64encode(raw).decode() for raw in (
    b"[]", b'[5, "a"]', b'["older", "2026-01-01T00:00:00Z", "a"]',
    b'["2026-01-01T00:00:00", "a"]', b"\xff\xfe",
    b'["2026-01-01T00:00:00Z", "\\u0000"]', b'["2026-01-01T00:00:00Z", "a", "\\u0000"]',
))]  # fmt: skip


@pytest.mark.parametrize("cursor", BAD)
def test_a_cursor_that_was_not_given_out_is_refused(home, cursor):
    async def story():
        async with home.opened() as records:
            with pytest.raises(InputError, match="cursor"):
                await records.page("predict", cursor=cursor)

    asyncio.run(story())


def test_times_of_whole_seconds_sort_before_later_fractions(home):
    whole = datetime(2026, 1, 1, tzinfo=UTC)

    async def story():
        async with home.opened() as records:
            records.save(make_record(1, created_at=whole))
            records.save(make_record(2, created_at=whole + timedelta(microseconds=500)))
            page = await records.page("predict")
            assert [record.id for record in page.records] == ["r2", "r1"]

    asyncio.run(story())
