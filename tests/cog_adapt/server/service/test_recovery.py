"""What dead servers left is run, or ended with a reason."""

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from cog_adapt.server.errors import NotRecorded
from cog_adapt.server.records import Record
from cog_adapt.server.service.recovery import Recovery
from tests.cog_adapt.server.service.harness import Harness
from tests.cog_adapt.waiting import until


def test_what_dead_servers_left_is_tried_until_it_is_taken(play, tmp_path, short_sleeps):

    async def scene(harness):
        dead = Harness(tmp_path)
        await dead.records.register()
        for name in "ab":
            await dead.submit(name)
        await dead.flush()
        await dead.records.close()
        fail_orphan, tried = harness.recorder.fail_orphan, []

        async def fail_late(record, error):
            tried.append(record.id)
            if len(tried) == 1:
                raise NotRecorded("the disk is full")
            await fail_orphan(record, error)

        harness.recorder.fail_orphan = fail_late
        harness.service.open()

        async def is_over():
            runs = [each.rpartition("/")[2] for each in harness.model.runs]
            return await harness.status("a") == "failed" and runs == ["b"]

        await until(is_over)
        assert tried == ["a", "a"]

    play(scene)


MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
LEFT = Record(
    id="a",
    kind="predict",
    status="starting",
    created_at=MOMENT,
    payload='{"input":{"n":1},"context":{},"headers":{}}',
    retries_left=1,
)


class Left:
    """Stands for the database and the recorder; notes what becomes of each record."""

    def __init__(self, *records):
        self.records, self.failed, self.looks = list(records), [], 0

    async def take_over(self):
        self.looks += 1
        found, self.records = self.records, []
        return found

    @asynccontextmanager
    async def taking(self):
        yield

    async def offer(self):
        pass

    async def take(self):
        return []

    async def fail_orphan(self, record, error):
        self.failed.append((record.id, error))


class Taker:
    """Stands for a dispatcher."""

    def __init__(self, *in_flight):
        self.predictions, self.calls = dict.fromkeys(in_flight), []

    def start(self):
        self.calls.append("start")

    async def submit(self, request, *, is_recovered):
        self.calls.append((request.id, bytes(request.input), request.retries, is_recovered))


def recover(*records, dispatcher=None, kind="predict", is_possible=True, seconds=0.05):
    async def story():
        left: Any = Left(*records)
        taker: Any = dispatcher or Taker()
        recovery = Recovery({kind: taker}, left, left, lambda: is_possible, left)
        recovery.start()
        await asyncio.sleep(seconds)
        recovery.stop()
        return left, taker

    return asyncio.run(story())


def change(**changes):
    return msgspec.structs.replace(LEFT, **changes)


def test_what_had_not_begun_runs_with_all_its_retries():
    left, taker = recover(LEFT)
    assert taker.calls == ["start", ("a", b'{"n":1}', 1, True)]
    assert left.failed == []


def test_what_had_begun_runs_once_more_for_one_retry_less():
    _, taker = recover(change(status="processing", retries_left=2))
    assert taker.calls == ["start", ("a", b'{"n":1}', 1, True)]


@pytest.mark.parametrize(
    ("changes", "kind", "error"),
    [
        (
            {"status": "processing", "retries_left": 0},
            "predict",
            "The server ended while it ran.",
        ),
        (
            {"payload": None},
            "predict",
            "The server ended before it ran, and cannot be repeated.",
        ),
        ({}, "train", "The server ended before it ran, and cannot be repeated."),
        ({"status": "processing", "payload": None}, "predict", "The server ended while it ran."),
    ],
)
def test_what_cannot_run_again_has_failed_with_the_reason(changes, kind, error):
    left, taker = recover(change(**changes), kind=kind)
    assert left.failed == [("a", error)]
    assert taker.calls == []


def test_what_is_in_flight_here_is_left_alone():
    left, taker = recover(LEFT, dispatcher=Taker(LEFT.key))
    assert (left.failed, taker.calls) == ([], [])


def test_where_nothing_can_run_nothing_is_taken():
    left, taker = recover(LEFT, is_possible=False)
    assert (left.looks, taker.calls) == (0, [])


def test_it_looks_again_every_so_often_until_it_is_stopped(short_sleeps):
    left, _ = recover(seconds=0.05 * 10)
    assert 2 <= left.looks <= 11
