"""The thread that writes, without a database: each transaction is noted."""

import asyncio
import logging
import time

import pytest

from cog_adapt.server.errors import StorageError, TakenOverError
from cog_adapt.server.records import writer as module
from cog_adapt.server.records.writer import Writer
from tests.cog_adapt.server.records.home import make_delivery, make_record
from tests.cog_adapt.server.records.noted_writes import DOWN, Notes, with_writer, writing
from tests.cog_adapt.waiting import assert_stays_so, until


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """So long that nothing is written only because it was time to."""
    monkeypatch.setattr(module, "PAUSE", 60)
    monkeypatch.setattr(module, "RETRY_PAUSE", 0.01)


def run(story):
    asyncio.run(story())


@with_writer
async def test_states_that_nobody_waits_for_replace_each_other(writer, notes):
    writer.put(make_record(1, status="processing"), [make_delivery(1)])
    writer.put(make_record(1), [make_delivery(2)])
    writer.put(None, [make_delivery(2)])
    assert writer.waiting == 3
    await assert_stays_so(lambda: notes.stored == [], 0.05)
    await writer.flush()
    assert writer.waiting == 0
    assert notes.stored == [["r1 succeeded", "d1", "d2"]]


def test_what_nobody_waits_for_is_written_after_a_pause(monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.1)

    async def story():
        async with writing() as (writer, notes):
            begun = time.monotonic()
            writer.put(make_record(1), ())
            await until(lambda: notes.stored)
            assert 0.09 < time.monotonic() - begun < 5

    assert module.MAX_KEPT == 50_000
    run(story)


@with_writer
async def test_a_durable_save_is_written_at_once_with_what_waits(writer, notes):
    writer.put(make_record(1), ())
    assert await writer.put_durably(make_record(2), [make_delivery(1)]) is None
    assert notes.stored == [["r1 succeeded", "r2 succeeded", "d1"]]


@with_writer
async def test_a_later_save_wins_over_a_durable_one_that_waits(writer, notes):
    notes.open.clear()
    writer.put_durably(make_record(9), ())
    await until(notes.entered.is_set)
    durable = writer.put_durably(
        make_record(1, status="processing"), [make_delivery(1, state="failed")]
    )
    writer.put(make_record(1), [make_delivery(1)])
    assert writer.waiting == 3
    notes.open.set()
    await durable
    assert notes.stored == [["r9 succeeded"], ["r1 succeeded", "d1"]]


@with_writer
async def test_a_save_is_found_before_and_while_it_is_written(writer, notes):
    notes.open.clear()
    writer.put(make_record(1, status="processing"), ())
    durable = writer.put_durably(make_record(2), ())
    await until(notes.entered.is_set)
    assert writer.waiting == 2
    assert writer.find(("predict", "r1", "")).status == "processing"
    writer.put(make_record(1), ())
    assert writer.find(("predict", "r1", "")).status == "succeeded"
    assert writer.find(("predict", "r2", "")).id == "r2"
    assert writer.find(("train", "r1", "")) is None
    notes.open.set()
    await durable
    await writer.flush()
    assert writer.find(("predict", "r1", "")) is None


@with_writer
async def test_who_waits_learns_that_another_server_has_the_record(writer, notes):
    notes.refused = {("predict", "r1", ""): TakenOverError("taken")}
    refused = writer.put_durably(make_record(1), ())
    kept = writer.put_durably(make_record(2), ())
    nobody = writer.put_durably(None, [make_delivery(1)])
    with pytest.raises(TakenOverError):
        await refused
    assert [await kept, await nobody] == [None, None]


@with_writer
async def test_what_failed_is_tried_again_unless_its_caller_knows(writer, notes):
    notes.fault = DOWN
    writer.put(make_record(1), ())
    with pytest.raises(StorageError, match="down"):
        await writer.put_durably(make_record(2), ())
    await until(lambda: len(notes.times) > 2)
    await until(lambda: writer.waiting == 1)
    notes.fault = None
    await until(lambda: notes.stored)
    assert notes.stored == [["r1 succeeded"]]


def test_a_failure_is_followed_by_a_rest(monkeypatch):
    monkeypatch.setattr(module, "RETRY_PAUSE", 0.2)

    async def story():
        async with writing() as (writer, notes):
            notes.fault = DOWN
            writer.put(make_record(1), ())
            await writer.flush()
            await until(lambda: len(notes.times) > 1)
            assert notes.times[1] - notes.times[0] > 0.15
            notes.fault = None

    run(story)


def test_no_more_is_kept_than_the_limit(monkeypatch, caplog):
    monkeypatch.setattr(module, "MAX_KEPT", 2)
    monkeypatch.setattr(module, "RETRY_PAUSE", 60)

    async def story():
        async with writing() as (writer, notes):
            notes.fault = DOWN
            for number in range(5):
                writer.put(make_record(number), ())
            await writer.flush()
            assert writer.waiting == 2
            notes.fault = None
            await writer.flush()
            assert notes.stored == [["r3 succeeded", "r4 succeeded"]]

    with caplog.at_level(logging.ERROR):
        run(story)
    assert "3 changes are lost: down" in caplog.text


@with_writer
async def test_a_call_comes_after_what_was_put_and_answers(writer, notes):
    writer.put(make_record(1), ())
    assert await writer.call(lambda connection: (connection, len(notes.stored))) == (
        "connection",
        1,
    )
    with pytest.raises(ValueError, match="odd"):
        await writer.call(lambda connection: int("odd"))


@with_writer
async def test_nothing_to_write_is_no_transaction(writer, notes):
    await writer.flush()
    await writer.put_durably(None, ())
    assert notes.times == []


@with_writer
async def test_a_beat_comes_again_and_again(writer, notes):
    beats, begun = [], time.monotonic()
    writer.start_beating(lambda connection: beats.append(time.monotonic()), 0.05)
    await until(lambda: len(beats) > 3)
    assert beats[3] - begun > 0.19


@with_writer
async def test_a_beat_waits_for_its_time(writer, notes):
    beats = []
    writer.start_beating(lambda connection: beats.append(1), 30)
    await writer.put_durably(make_record(1), ())
    assert beats == []


@with_writer
async def test_a_canceled_caller_harms_nobody(writer, notes):
    notes.open.clear()
    first, second = (writer.put_durably(make_record(number), ()) for number in (1, 2))
    first.cancel()
    notes.open.set()
    await second
    await writer.put_durably(make_record(3), ())


def test_closing_writes_what_waits_and_runs_the_last_function():
    async def story():
        notes, ended = Notes(), []
        writer = Writer(notes)
        writer.put(make_record(1), ())
        await writer.close(lambda connection: ended.append(list(notes.stored)))
        assert ended == [[["r1 succeeded"]]]
        for refused in (
            lambda: writer.put(make_record(2), ()),
            lambda: asyncio.run(writer.call(print)),
        ):
            with pytest.raises(StorageError, match="closed"):
                await asyncio.to_thread(refused)
        with pytest.raises(StorageError, match="closed"):
            await writer.put_durably(make_record(2), ())
        await writer.flush()
        assert notes.stored == [["r1 succeeded"]]

    run(story)


def test_closing_says_what_is_lost():
    async def story():
        notes = Notes()
        writer = Writer(notes)
        notes.fault = DOWN
        writer.put(make_record(1), ())
        writer.put(make_record(2), ())
        with pytest.raises(StorageError, match="2 changes are lost: down"):
            await writer.close(lambda connection: None)

    run(story)


def test_a_loop_that_has_ended_does_not_end_the_thread():
    notes = Notes()
    writer = Writer(notes)
    notes.open.clear()

    async def leave():
        writer.put_durably(make_record(1), ())
        await until(notes.entered.is_set)

    asyncio.run(leave())
    notes.open.set()

    async def go_on():
        await writer.put_durably(make_record(2), ())
        await writer.close(lambda connection: None)

    asyncio.run(go_on())
    assert notes.stored == [["r1 succeeded"], ["r2 succeeded"]]
