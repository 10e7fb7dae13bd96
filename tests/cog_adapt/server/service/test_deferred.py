import asyncio
import time
from functools import partial
from typing import Any

from cog_adapt.server.service.deferred import DeferredCalls


def test_each_call_comes_in_order_and_none_before_its_time():
    async def story():
        deferred, began = DeferredCalls(0.05), time.monotonic()
        called: list[Any] = []

        def note(number):
            called.append((number, time.monotonic() - began))

        for number in range(3):
            deferred.add(partial(note, number))
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.15)
        assert [number for number, _ in called] == [0, 1, 2]
        assert all(seconds >= 0.05 + 0.02 * number for number, seconds in called)
        deferred.add(lambda: called.append("again"))  # it sleeps while nothing waits
        await asyncio.sleep(0.1)
        assert called[-1] == "again"

    asyncio.run(story())


def test_a_call_that_fails_takes_no_other_along():
    async def story():
        faults, called = [], []
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: faults.append(fault))
        deferred = DeferredCalls(0.01)
        deferred.add(lambda: [][0])
        deferred.add(lambda: called.append(1))
        await asyncio.sleep(0.05)
        assert called == [1]
        assert len(faults) == 1

    asyncio.run(story())
