"""How many webhooks are under way at once."""

import asyncio
import contextlib

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


async def test_an_owner_takes_a_part_of_all_turns_and_waits_without_holding_a_hosts(hold):
    turns = Turns(most=10, most_of_owner=3, most_of_host=3)
    assert sum([await hold(turns, "ann", f"http://h{n}/") for n in range(5)]) == 3
    assert await hold(turns, "ann", "http://shared/", 5) == 0
    assert await hold(turns, "bob", "http://shared/", 3) == 3


async def test_who_has_no_name_may_take_all(hold):
    turns = Turns(most=5, most_of_owner=1)
    assert sum([await hold(turns, "", f"http://h{n}/") for n in range(9)]) == 5


async def test_nothing_is_kept_of_those_who_have_had_their_turns():
    turns = Turns(most_of_host=1)

    async def one(url):
        async with turns.take("ann", url):
            await asyncio.sleep(0)

    tasks = [asyncio.create_task(one("http://[x/")) for _ in range(5)]
    await asyncio.sleep(0)
    tasks[3].cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for shares in (turns._owners, turns._hosts):
        assert (shares._users, shares._semaphores) == ({}, {})
