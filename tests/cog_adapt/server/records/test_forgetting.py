"""What is forgotten is nowhere: not in the database, its log, nor a file."""

import asyncio
import threading

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from cog_adapt.server.records.blobs import BlobFolder, Blobs
from cog_adapt.server.records.forgetting import (
    ForgottenRecords,
    RecordSelection,
    forget,
    share_files,
)
from tests.cog_adapt.server.records.home import make_delivery, make_record

LARGE = "q7Zk-large-" * 20
FIELDS = ("input", "output", "logs", "error", "webhook", "payload")


def secrets(name):
    return {field: f"q7Zk-{name}-{field}" for field in FIELDS}


def owed(number, name, **more):
    body = {"body": f"q7Zk-{name}-body", "url": f"https://h/?q7Zk-{name}-url"}
    return make_delivery(number, record_id="r1", owner=name, **(body | more))


def places_of(folder, word):
    """Every file below a folder with this word in it."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if word.encode() in path.read_bytes()]


async def save_in_steps(records, name, **more):
    """As a prediction is: accepted, begun, ended, delivered."""
    for status in ("starting", "processing", "succeeded"):
        record = make_record(1, owner=name, status=status, **(secrets(name) | more))
        await records.save_durably(record)
    await records.save_durably(record, [owed(len(name), name, state="delivered")])
    return record


@pytest.mark.parametrize("by_owner", [False, True])
def test_no_byte_of_a_forgotten_record_is_left(sqlite_home, by_owner):
    async def story():
        async with sqlite_home.opened(blob_bytes=100) as records:
            await save_in_steps(records, "annie", output=LARGE)
            earlier = make_record(1, owner="annie", payload=f"{LARGE}earlier")
            await records.save_durably(earlier)
            await save_in_steps(records, "annie", output=LARGE)
            await save_in_steps(records, "bob")
            assert places_of(sqlite_home.folder, "q7Zk-annie")
            assert len(places_of(sqlite_home.folder, LARGE)) == 2
            name = None if by_owner else "r1"
            assert await records.forget("predict", "annie", name) == ForgottenRecords(1)
            assert places_of(sqlite_home.folder, "q7Zk-annie") == []
            assert places_of(sqlite_home.folder, LARGE) == []
            assert await records.get("r1", "predict", "annie") is None
            assert await records.deliveries("r1", "predict", "annie") == []
            assert (await records.get("r1", "predict", "bob")).input == "q7Zk-bob-input"
            assert len(await records.deliveries("r1", "predict", "bob")) == 1

    asyncio.run(story())


def test_a_record_and_its_rows_are_gone_in_every_database(home):
    async def story():
        async with home.opened(blob_bytes=100) as records:
            await save_in_steps(records, "annie", output=LARGE)
            assert await records.forget("predict", "bob", "r1") == ForgottenRecords(0)
            assert await records.forget("train", "annie", "r1") == ForgottenRecords(0)
            assert await records.forget("predict", "annie", "r1") == ForgottenRecords(1)
            with home.connected() as connection:
                for table in ("records", "deliveries"):
                    assert connection.execute(text(f"SELECT * FROM {table}")).all() == []
            assert home.texts() == []

    asyncio.run(story())


def test_a_text_that_another_record_names_stays_for_that_one(home):
    async def story():
        async with home.opened(blob_bytes=100) as records:
            for name in ("annie", "bob"):
                await records.save_durably(make_record(1, owner=name, output=LARGE))
            await records.forget("predict", "annie", "r1")
            assert (await records.get("r1", "predict", "bob")).output == LARGE
            await records.forget("predict", "bob", "r1")
            assert home.texts() == []

    asyncio.run(story())


def test_nothing_is_removed_while_one_has_not_ended(home):
    async def story():
        async with home.opened() as records:
            await records.save_durably(make_record(1, owner="annie"))
            await records.save_durably(make_record(2, owner="annie", status="processing"))
            assert await records.forget("predict", "annie") == ForgottenRecords(0, 1)
            assert await records.forget("predict", "annie", "r2") == ForgottenRecords(0, 1)
            assert len((await records.page("predict", owner="annie")).records) == 2
            assert await records.forget("predict", "annie", "r1") == ForgottenRecords(1)

    asyncio.run(story())


def test_what_waits_to_be_written_is_forgotten_too(home):
    async def story():
        async with home.opened() as records:
            records.save(make_record(1, owner="annie"))
            assert await records.forget("predict", "annie", "r1") == ForgottenRecords(1)
            assert await records.get("r1", "predict", "annie") is None

    asyncio.run(story())


def test_an_attempt_that_ends_later_does_not_bring_its_delivery_back(home):
    async def story():
        async with home.opened() as records:
            delivery = owed(1, "annie")
            await records.save_durably(make_record(1, owner="annie"), [delivery])
            await records.forget("predict", "annie", "r1")
            await records.update_delivery(msgspec.structs.replace(delivery, attempts=1))
            assert await records.deliveries("r1", "predict", "annie") == []

    asyncio.run(story())


def test_the_id_may_be_used_again(home):
    async def story():
        async with home.opened() as records:
            await records.save_durably(make_record(1, owner="annie", input="old"))
            await records.forget("predict", "annie", "r1")
            await records.save_durably(make_record(1, owner="annie", input="new"))
            assert (await records.get("r1", "predict", "annie")).input == "new"

    asyncio.run(story())


def test_two_servers_that_write_and_forget_one_text_lose_none_that_is_named(home):
    """Whose transaction comes later finds the file, or writes it."""

    async def story(records, name):
        for number in range(8):
            await records.save_durably(make_record(number, owner=name, output=LARGE))
            assert (await records.get(f"r{number}", "predict", name)).output == LARGE
            await records.forget("predict", name, f"r{number}")
        await records.save_durably(make_record(99, owner=name, output=LARGE))

    async def server(name):
        async with home.opened(blob_bytes=100) as records:
            await story(records, name)

    home.folder.mkdir()
    threads = [
        threading.Thread(target=lambda name=name: asyncio.run(server(name))) for name in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    async def look():
        async with home.opened(blob_bytes=100) as records:
            for name in "ab":
                assert (await records.get("r99", "predict", name)).output == LARGE

    asyncio.run(look())


def test_postgresql_removes_no_file_while_another_transaction_may_name_it(postgresql_home):
    async def story():
        async with postgresql_home.opened() as records:
            await records.save_durably(make_record(1))

    asyncio.run(story())
    blobs = Blobs(BlobFolder(postgresql_home.folder / "blobs"), 100)
    with postgresql_home.connected() as writing, postgresql_home.connected() as forgetting:
        share_files(writing)
        forgetting.execute(text("SET LOCAL lock_timeout = '50ms'"))
        with pytest.raises(OperationalError, match="lock timeout"):
            forget(forgetting, RecordSelection("predict", "", "r1"), blobs)
        forgetting.rollback()


@pytest.mark.parametrize("field", ["input", "output", "metrics"])
@pytest.mark.parametrize("is_large", [False, True])
def test_a_word_is_found_in_other_records_of_its_owner(home, field, is_large):
    value = f'{{"a":"abc123"{" " * 200 * is_large}}}'

    async def story():
        async with home.opened(blob_bytes=100) as records:
            mine = make_record(1, owner="annie", **{field: value})
            theirs = make_record(2, owner="bob", **{field: value})
            for record in (mine, theirs):
                await records.save_durably(record)
            assert not await records.is_mentioned("abc123", mine)
            other = make_record(3, owner="annie", **{field: value})
            await records.save_durably(other)
            assert await records.is_mentioned("abc123", mine)
            assert not await records.is_mentioned("abc_23", mine)

    asyncio.run(story())


def test_of_too_many_large_values_one_counts_as_found(home, monkeypatch):
    monkeypatch.setattr("cog_adapt.server.records.forgetting.MOST_SEARCHED", 2)

    async def story():
        async with home.opened(blob_bytes=10) as records:
            for number in range(4):
                await records.save_durably(make_record(number, input=f"{number}" * 20))
                found = await records.is_mentioned("abc", make_record(9))
                assert found is (number > 1)

    asyncio.run(story())
