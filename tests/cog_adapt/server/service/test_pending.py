"""What a worker was asked and has not answered yet."""

import asyncio
from typing import Any

import pytest

from cog_adapt.server.protocol import AskGauges, AskHealth, Gauges, Health
from cog_adapt.server.service.pending import PendingRequests


def run(scene):
    async def story():
        sent: list[Any] = []
        await asyncio.wait_for(scene(PendingRequests(sent.append), sent), 10)

    asyncio.run(story())


def asking(pending, seconds=5.0):
    return asyncio.ensure_future(pending.ask(AskHealth(), Health, seconds))


def test_an_answer_of_another_type_is_another_question():
    async def scene(pending, sent):
        health, gauges = asking(pending), asyncio.ensure_future(pending.ask(AskGauges(), Gauges, 5))
        await asyncio.sleep(0)
        pending.resolve(Gauges({"a": 1.0}))
        pending.resolve(Health())
        assert (await health, (await gauges).values) == (Health(), {"a": 1.0})
        assert sent == [AskHealth(), AskGauges()]

    run(scene)


def test_without_an_answer_in_time_it_is_given_up_and_asked_again():
    async def scene(pending, sent):
        with pytest.raises(TimeoutError):
            await asking(pending, 0.01)
        asker = asking(pending)
        await asyncio.sleep(0)
        assert len(sent) == 2
        pending.resolve(Health())
        await asker

    run(scene)


def test_an_answer_that_nobody_waits_for_is_no_fault():
    async def scene(pending, _):
        pending.resolve(Health())
        pending.cancel_all()

    run(scene)
