"""How many webhooks are under way at once."""

import asyncio
import contextlib
from typing import Any

import pytest

from cog_adapt.server.webhooks.turns import Turns

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture
async def hold(anyio_backend):
    """Asks for turns, and says how many of them were given."""
    async with contextlib.AsyncExitStack() as stack:
        leave = asyncio.Event()

        async def hold(turns, owner, url, count=1):
            given = []

            async def one():
                async with turns.take(owner, url):
                    given.append(1)
                    await leave.wait()

            tasks = [asyncio.create_task(one()) for _ in range(count)]
            stack.push_async_callback(asyncio.gather, *tasks)
            for _ in range(20):
                await asyncio.sleep(0)
            return len(given)

        yield hold
        leave.set()


async def test_a_host_takes_its_turns_and_no_others(hold):
    turns = Turns(most=10, most_of_host=4)
    assert await hold(turns, "", "http://tarpit/a", 9) == 4
    assert await hold(turns, "", "http://Tarpit:81/b", 1) == 0
    assert await hold(turns, "", "http://other/", 1) == 1


async def test_an_owner_leaves_as_many_turns_of_a_host_as_it_takes(hold):
    turns = Turns(most=100, most_of_host=8)
    assert await hold(turns, "ann", "http://shared/", 9) == 4
    assert await hold(turns, "bob", "http://shared/", 9) == 2
    assert await hold(turns, "cid", "http://shared/", 9) == 1
    assert await hold(turns, "dan", "http://shared/", 9) == 1
    assert await hold(turns, "ann", "http://other/", 9) == 4


async def test_an_owner_leaves_as_many_of_all_turns_as_it_takes(hold):
    turns = Turns(most=10, most_of_host=3)
    assert sum([await hold(turns, "ann", f"http://h{n}/") for n in range(9)]) == 5
    assert await hold(turns, "bob", "http://h8/") == 1


async def test_a_turn_that_is_free_again_goes_to_the_owner_with_the_fewest():
    turns, given, leave = Turns(most_of_host=4), [], asyncio.Event()

    async def one(owner, event):
        async with turns.take(owner, "http://shared/"):
            given.append(owner)
            await event.wait()

    first = asyncio.Event()
    tasks = [asyncio.create_task(one("ann", first))]
    tasks += [asyncio.create_task(one(owner, leave)) for owner in ("ann", "bob", "cid")]
    tasks += [asyncio.create_task(one(owner, leave)) for owner in ("ann", "bob", "dan")]
    for _ in range(20):
        await asyncio.sleep(0)
    assert sorted(given) == ["ann", "ann", "bob", "cid"]
    first.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert given[4:] == ["dan"]
    leave.set()
    await asyncio.gather(*tasks)
    assert sorted(given) == ["ann"] * 3 + ["bob"] * 2 + ["cid", "dan"]


async def test_who_has_no_name_may_take_all(hold):
    turns = Turns(most=5)
    assert sum([await hold(turns, "", f"http://h{n}/") for n in range(9)]) == 5


@pytest.mark.parametrize("gone", range(5))
async def test_who_waits_no_longer_keeps_no_turn(gone):
    turns, entered = Turns(most_of_host=1), []

    async def one(url):
        async with turns.take("ann", url):
            entered.append(1)
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(one("http://[x/")) for _ in range(5)]
    for _ in range(2):
        await asyncio.sleep(0)
    tasks[gone].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert len(entered) >= 4
    tasks = [asyncio.create_task(one("http://[x/")) for _ in range(3)]
    await asyncio.wait_for(asyncio.gather(*tasks), 10)


async def test_a_turn_given_to_who_leaves_at_that_moment_is_the_next_ones():
    turns, entered, leave = Turns(most_of_host=1), [], asyncio.Event()

    async def one(name):
        async with turns.take("ann", "http://h/"):
            entered.append(name)
            await leave.wait()

    tasks = [asyncio.create_task(one(name)) for name in "abc"]
    for _ in range(5):
        await asyncio.sleep(0)
    leave.set()
    while entered == ["a"] and not tasks[0].done():
        await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert entered[-1] == "c"


async def test_a_turn_that_reached_nobody_rests_and_one_that_did_does_not(monkeypatch):
    later: list[Any] = []
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "call_later", lambda seconds, call: later.append((seconds, call)))
    turns = Turns(most_of_host=1)
    for rests in (False, True):
        async with turns.take("", "http://refusing/") as turn:
            turn.rests = rests
    waiting = asyncio.ensure_future(turns.take("", "http://refusing/").__aenter__())
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done()
    assert {seconds for seconds, _ in later} == {1.0}
    for _, call in later:
        call()
    await waiting
