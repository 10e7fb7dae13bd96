"""The events of one prediction, for those who follow it live or later."""

import asyncio

import pytest

from cog_adapt.server.service import events
from cog_adapt.server.service.events import EventLog, MissedError
from cog_adapt.server.shares.budget import Budget


def filled(capacity, count, *, closed=True):
    log = EventLog(capacity)
    for number in range(1, count + 1):
        log.append("log", b"%d" % number)
    if closed:
        log.close()
    return log


async def collected(log, after=0):
    return [event.number async for portion in log.follow(after) for event in portion]


def follow(log, after=0):
    return asyncio.run(asyncio.wait_for(collected(log, after), 5))


def test_a_number_of_an_earlier_log_is_followed_from_the_beginning():
    assert follow(filled(10, 2), 30) == [1, 2]


@pytest.mark.parametrize(
    ("capacity", "after", "count"), [(3, 0, 2), (3, 1, 1), (0, 0, 5), (0, 4, 1)]
)
def test_a_follower_is_told_how_many_events_are_gone(capacity, after, count):
    with pytest.raises(MissedError, match=f"{count} events") as caught:
        follow(filled(capacity, 5), after)
    assert caught.value.count == count


@pytest.mark.parametrize(("capacity", "after"), [(3, 2), (0, 5)])
def test_nothing_is_missing_to_who_has_seen_what_is_gone(capacity, after):
    assert follow(filled(capacity, 5), after) == list(range(after + 1, 6))


def test_live_events_come_to_every_follower_while_the_log_is_open():
    async def live():
        log = filled(10, 1, closed=False)
        one, two = (asyncio.ensure_future(collected(log)) for _ in range(2))
        for _ in range(3):
            await asyncio.sleep(0)
            log.append("log", b"")
        assert log.followers == 2
        assert not one.done()
        log.close()
        return await one, await two

    assert asyncio.run(asyncio.wait_for(live(), 5)) == ([1, 2, 3, 4], [1, 2, 3, 4])


def test_a_follower_who_never_reads_costs_a_bounded_queue(monkeypatch):
    monkeypatch.setattr(events, "MOST_WAITING", 3)

    async def sleep_and_read():
        log = EventLog(0)
        stream = log.follow(None)
        reading = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        for _ in range(5):
            log.append("log", b"")
        with pytest.raises(MissedError) as caught:
            await reading
        return caught.value.count

    assert asyncio.run(sleep_and_read()) == 2


def test_the_oldest_go_where_the_events_are_too_large():
    budget = Budget("events", "EVENT_BYTES", 16_000)
    log = EventLog(100, budget, "")
    for number in range(9):
        log.append("output", b"%d" % number * 500)  # 700 bytes each
    assert log.missed(0) == 7  # an eighth of all is one log's
    assert (log.size, budget.used) == (1400, 1400)
    log.append("output", b"x" * 2000)
    assert (log.size, budget.used, log.missed(0)) == (0, 0, 10)


def test_logs_together_keep_to_the_budget_and_owners_to_their_share():
    budget = Budget("events", "EVENT_BYTES", 8_000, share=0.5)
    logs = [EventLog(100, budget, "ann") for _ in range(20)]
    for log in logs:
        log.append("output", b"x" * 200)
    assert budget.used == 4_000
    other = EventLog(100, budget, "bob")
    other.append("output", b"x" * 200)
    assert other.missed(0) == 0
    for log in (*logs, other):
        log.release()
    assert budget.used == 0


def test_what_is_released_can_still_be_read():
    budget = Budget("events", "EVENT_BYTES", 16_000)
    log = EventLog(10, budget)
    log.append("log", b"1")
    log.close()
    log.release()
    assert (budget.used, follow(log)) == (0, [1])


def test_a_slow_follower_misses_what_is_too_large_to_wait():
    async def live():
        log = EventLog(0, Budget("events", "EVENT_BYTES", 8_000))
        reader = log.follow()
        log.append("output", b"x" * 5_000)
        log.append("output", b"x")
        with pytest.raises(MissedError, match="1 events"):
            await anext(reader)
        fast = log.follow(None)
        for _ in range(3):
            log.append("output", b"x" * 5_000)
            assert len(await anext(fast)) == 1

    asyncio.run(live())
