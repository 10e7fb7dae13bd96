import asyncio
import time
from datetime import UTC, datetime, timedelta

import pytest

from cog_adapt.server.records.record import Delivery
from cog_adapt.server.webhooks import retries as module
from cog_adapt.server.webhooks.retries import Retries
from tests.cog_adapt.waiting import assert_stays_so, until

pytestmark = pytest.mark.anyio
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def anyio_backend():
    return "asyncio"


def delivery(name="a", **changes):
    return Delivery(
        id=name, record_id="p", kind="predict", event="completed", url="u", body="{}",
        **{"created_at": LONG_AGO, "attempts": 1, **changes},
    )  # fmt: skip


class Deliverer:
    """Notes what is tried; each try ends when it is let, with the state given."""

    def __init__(self, *due):
        self.due = list(due)
        self.limits, self.tried, self.claimed = [], [], set()
        self.open = asyncio.Event()
        self.open.set()

    async def find_due(self, limit, but_owners=()):
        self.limits.append(limit)
        free = (each for each in self.due if each.id not in self.claimed)
        return [each for each in free if each.owner not in but_owners][:limit]

    def claim(self, delivery):
        is_free = delivery.id not in self.claimed
        self.claimed.add(delivery.id)
        return is_free

    async def deliver(self, delivery, delays):
        self.tried.append((delivery.id, delays))
        await self.open.wait()
        return delivery


def look_now(retries):
    """Let it read what is due, as a delivery whose next attempt is due does."""
    retries.note(delivery("due", next_attempt_at=LONG_AGO))


@pytest.fixture
async def start():
    begun = []

    def start(deliverer):
        retries = Retries(deliverer, (1, 2))
        begun.append(retries)
        retries.start()
        return retries

    yield start
    for retries in begun:
        await retries.stop()


async def test_32_are_tried_at_once_and_the_next_where_one_ends(start):
    deliverer = Deliverer(*(delivery(str(number)) for number in range(40)))
    deliverer.open.clear()
    retries = start(deliverer)
    await until(lambda: len(deliverer.tried) == 32)
    await assert_stays_so(lambda: len(deliverer.tried) == len(retries.running) == 32, 0.02)
    look_now(retries)
    await assert_stays_so(lambda: deliverer.limits == [32], 0.02)
    deliverer.open.set()
    await until(lambda: len(deliverer.tried) == 40)
    await until(lambda: not retries.running)


class Later(datetime):
    """The clock a minute later."""

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) + timedelta(seconds=61)


async def test_a_new_delivery_is_left_to_its_first_attempt_for_a_minute(start, monkeypatch):
    deliverer = Deliverer()
    retries = start(deliverer)
    now = datetime.now(UTC)
    deliverer.due = [
        delivery("new", attempts=0, created_at=now + timedelta(milliseconds=1)),
        delivery("tried", attempts=1, created_at=now + timedelta(milliseconds=1)),
        delivery("older", attempts=0, created_at=now - timedelta(seconds=30)),
    ]
    await until(lambda: deliverer.limits)
    look_now(retries)
    await until(lambda: len(deliverer.tried) == 2)
    assert [name for name, _ in deliverer.tried] == ["tried", "older"]
    monkeypatch.setattr(module, "datetime", Later)
    look_now(retries)
    await until(lambda: len(deliverer.tried) == 3)
    assert deliverer.tried[-1][0] == "new"


async def test_it_looks_again_at_each_moment_when_a_next_attempt_is_due(start):
    deliverer = Deliverer()
    retries = start(deliverer)
    await until(lambda: deliverer.limits)
    begun = time.monotonic()
    for seconds in (40, 0.3, 0.15):
        due = datetime.now(UTC) + timedelta(seconds=seconds)
        retries.note(delivery(next_attempt_at=due))
    retries.note(delivery(next_attempt_at=None))
    for count, seconds in ((2, 0.15), (3, 0.3)):
        await until(lambda: len(deliverer.limits) == count)  # noqa: B023 - awaited in this round
        assert seconds - 0.01 < time.monotonic() - begun < 1.9  # unasked, it looks after 2 s
    await assert_stays_so(lambda: len(deliverer.limits) == 3, 0.02)


async def test_it_looks_every_few_seconds_for_what_others_left(start):
    deliverer = Deliverer()
    start(deliverer)
    await until(lambda: len(deliverer.limits) > 1, 10)


async def test_when_stopped_nothing_more_is_begun(start):
    deliverer = Deliverer(delivery("a"))
    deliverer.open.clear()
    retries = start(deliverer)
    await until(lambda: retries.running)
    await retries.stop()
    deliverer.due = [delivery("b")]
    look_now(retries)
    await assert_stays_so(lambda: [name for name, _ in deliverer.tried] == ["a"], 0.02)
    assert len(retries.running) == 1
    deliverer.open.set()
    await until(lambda: not retries.running)
    await retries.stop()


async def test_an_owners_slow_receivers_leave_attempts_to_others(start):
    anns = [delivery(f"a{n}", owner="ann") for n in range(100)]
    bobs = [delivery(f"b{n}", owner="bob") for n in range(3)]
    deliverer = Deliverer(*anns, *bobs)
    deliverer.open.clear()
    start(deliverer)
    await until(lambda: len(deliverer.tried) >= 19)
    tried = [name for name, _ in deliverer.tried]
    assert sorted(tried[16:]) == ["b0", "b1", "b2"]
    deliverer.open.set()
    await until(lambda: len(deliverer.tried) == 103)


async def test_a_clock_that_is_set_back_holds_up_no_look(start, monkeypatch):
    deliverer = Deliverer()
    retries = start(deliverer)
    await until(lambda: len(deliverer.limits) == 1)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 10_800)
    retries.note(delivery(next_attempt_at=datetime.now(UTC) + timedelta(seconds=1)))
    await until(lambda: len(deliverer.limits) == 2)
