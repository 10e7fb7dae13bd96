"""Saving and finding records."""

import asyncio
import os
import time
from datetime import timedelta

import msgspec
import pytest

from cog_adapt.server.errors import StorageError, TakenOverError
from tests.cog_adapt.server.records.home import START, make_delivery, make_record

EVERYTHING = {
    "kind": "train",
    "status": "processing",
    "started_at": START + timedelta(microseconds=1),
    "completed_at": START + timedelta(days=1),
    "input": '{"text":"\\u0000 ö \U0001f600"}',
    "payload": '{"webhook":"x"}',
    "input_digest": "f" * 64,
    "output": "[1, 2.5, null]",
    "logs": "one\ntwo ö\n",
    "metrics": '{"a":{"b":1}}',
    "error": "it's 'broken' :name %s",
    "webhook": "https://example.com/hook?a=b",
    "webhook_events": ("start", "completed"),
    "retries_left": 3,
    "deadline": START + timedelta(hours=1),
}


def test_a_record_comes_back_as_it_was_saved(home):
    async def story():
        async with home.opened() as records:
            record = make_record(1, server=records.server, **EVERYTHING)
            await records.save_durably(record)
            assert await records.get("r1", "train") == record
            assert await records.get("r1", "predict") is None
        async with home.opened() as records:
            assert await records.get("r1", "train") == record

    asyncio.run(story())


@pytest.mark.parametrize("order", [("save", "save_durably"), ("save_durably", "save")])
def test_the_last_save_wins_however_it_was_made(home, order):
    async def story():
        async with home.opened() as records:
            tasks = []
            for status, how in zip(("processing", "succeeded"), order, strict=True):
                record = make_record(1, status=status)
                if how == "save":
                    records.save(record)
                else:
                    tasks.append(asyncio.create_task(records.save_durably(record)))
                    await asyncio.sleep(0)
            await asyncio.gather(*tasks)
        async with home.opened() as records:
            assert (await records.get("r1", "predict")).status == "succeeded"

    asyncio.run(story())


def test_one_bad_record_does_not_hold_up_the_others(home, caplog):
    async def story():
        async with home.opened() as records:
            records.save(make_record(1, retries_left=2**70))
            records.save(make_record(2))
            if home.url:
                await records.save_durably(make_record(3))
                with pytest.raises(StorageError, match="cannot be stored"):
                    await records.save_durably(make_record(4, retries_left=2**70))
                lost = [text for text in caplog.messages if " is lost, " in text]
                assert [text.split(" is ")[0] for text in lost] == [
                    "record ('predict', 'r1', '')",
                    "record ('predict', 'r4', '')",
                ]
            await records.save_durably(make_record(5))
            assert records.error is None
            assert (await records.get("r2", "predict")).id == "r2"

    asyncio.run(story())


def test_large_texts_lie_outside_of_rows_and_are_references_in_pages(home):
    large = '"' + "ö" * 40 + '"'

    async def story():
        async with home.opened(blob_bytes=81) as records:
            values = {"input": large, "output": large, "payload": large, "logs": large}
            record = make_record(1, server=records.server, **values)
            await records.save_durably(record)
            await records.save_durably(make_record(2, input=large[2:]))
            assert await records.get("r1", "predict") == record
            listed = (await records.page("predict")).records[1]
            assert listed.input.startswith('{"stored":"sha256:')
            assert home.texts() == [large]
            home.cut_texts()
            damaged = await records.get("r1", "predict")
            assert damaged.payload is None
            assert damaged.output == listed.output

    asyncio.run(story())


def test_folders_are_private(sqlite_home):
    async def story():
        async with sqlite_home.opened():
            assert sqlite_home.folder.stat().st_mode & 0o777 == 0o700

    asyncio.run(story())


def test_a_registered_server_is_known_at_once(home):
    async def story():
        async with home.opened() as records:
            with home.connected() as connection:
                rows = connection.exec_driver_sql("SELECT id FROM servers").all()
            assert rows == [(records.server,)]
            assert records.error is None
        with home.connected() as connection:
            assert connection.exec_driver_sql("SELECT id FROM servers").all() == []

    asyncio.run(story())


@pytest.mark.parametrize(("size", "files"), [(65_536, 0), (65_537, 1)])
def test_texts_of_more_than_64_kilobytes_are_files_that_go_after_an_hour(sqlite_home, size, files):
    async def story():
        async with sqlite_home.opened() as records:
            await records.save_durably(make_record(1, input="x" * size))
            found = list((sqlite_home.folder / "blobs").iterdir())
            assert len(found) == files
            for age, left in ((3590, files), (3610, 0)):
                for path in found:
                    os.utime(path, (time.time() - age,) * 2)
                await records.prune(timedelta(days=36500), 0)
                assert len(list((sqlite_home.folder / "blobs").iterdir())) == left

    asyncio.run(story())


def test_a_refused_record_takes_its_deliveries_with_it(home):
    async def story():
        async with home.opened() as one, home.opened() as other:
            await one.save_durably(make_record(1, status="processing"))
            refused = other.save_at_once(make_record(1), [make_delivery(1)])
            kept = other.save_at_once(make_record(2), [make_delivery(2)])
            with pytest.raises(TakenOverError):
                await refused
            assert await kept is None
            assert await other.deliveries("r1", "predict") == []
            assert len(await other.deliveries("r2", "predict")) == 1

    asyncio.run(story())


def test_one_id_of_two_owners_is_two_records(home):
    """Found, replaced, listed and followed by deliveries each by itself."""
    mine, theirs = (make_record(1, owner=name, logs=name) for name in ("ann", "bob"))
    owed = [make_delivery(n, record_id="r1", owner=name) for n, name in enumerate(("ann", "bob"))]

    async def story():
        async with home.opened() as records:
            await records.save_durably(mine, owed[:1])
            await records.save_durably(theirs, owed[1:])
            await records.save_durably(msgspec.structs.replace(mine, logs="again"))
            for committed in (False, True):
                if committed:
                    await records.owners_of("any", "predict")  # after what was saved before
                assert (await records.get("r1", "predict", "ann")).logs == "again"
                assert (await records.get("r1", "predict", "bob")).logs == "bob"
                assert await records.get("r1", "predict") is None
            assert sorted(await records.owners_of("r1", "predict")) == ["ann", "bob"]
            (listed,) = (await records.page("predict", owner="ann")).records
            assert (listed.owner, listed.logs) == ("ann", "again")
            assert (await records.page("predict")).records == []
            assert len((await records.page("predict", owner=None)).records) == 2
            for number, name in enumerate(("ann", "bob")):
                (found,) = await records.deliveries("r1", "predict", name)
                assert found.id == f"d{number}"
            assert await records.deliveries("r1", "predict") == []

    asyncio.run(story())


def test_pages_of_all_owners_miss_none_of_one_time_and_id(home):
    async def story():
        async with home.opened() as records:
            for name in ("ann", "bob", "cid"):
                await records.save_durably(make_record(1, owner=name))
            seen, cursor = [], None
            for _ in range(3):
                page = await records.page("predict", (), cursor, 1, None)
                seen.append(page.records[0].owner)
                cursor = page.next_cursor
            assert (seen, cursor) == (["cid", "bob", "ann"], None)

    asyncio.run(story())
