"""Questions to a worker about adapters."""

import asyncio

import pytest

from cog_adapt.server.adapter_messages import AdaptersAnswered
from cog_adapt.server.errors import (
    AdapterTimeout,
    NotFound,
    NotReady,
    QueueFull,
)
from cog_adapt.server.service.adapter_link import MOST_OPEN, AdapterLink


class Worker:
    """Notes what it is asked."""

    def __init__(self):
        self.asked, self.hears = [], True

    def send(self, question):
        self.asked.append(question)
        return self.hears


def run(scene):
    async def story():
        worker = Worker()
        await asyncio.wait_for(scene(AdapterLink(worker.send), worker), 10)

    asyncio.run(story())


async def asking(link, *, seconds=5.0):
    asked = asyncio.ensure_future(link.ask("change", "ada", seconds, adapter_id="a1"))
    await asyncio.sleep(0)
    return asked


def test_each_answer_reaches_the_one_who_asked():
    async def scene(link, worker):
        first, second = await asking(link), await asking(link)
        numbers = [each.number for each in worker.asked]
        for number, text in zip(numbers[::-1], (b"2", b"1"), strict=True):
            link.on_report(AdaptersAnswered(number, text))
        assert (await first, await second) == (1, 2)
        link.on_report(AdaptersAnswered(numbers[0], b"3"))  # once more: nobody waits

    run(scene)


def test_what_the_worker_does_not_find_is_not_found():
    async def scene(link, worker):
        asked = await asking(link)
        number = worker.asked[0].number
        link.on_report(AdaptersAnswered(number, fault="not found", error="why"))
        with pytest.raises(NotFound, match="why"):
            await asked

    run(scene)


def test_no_answer_in_time_and_none_from_the_dead():
    async def scene(link, worker):
        with pytest.raises(AdapterTimeout, match=r"within 0.01 s"):
            await (await asking(link, seconds=0.01))
        asked = await asking(link)
        link.on_exit()
        with pytest.raises(NotReady, match="ended before it answered"):
            await asked
        worker.hears = False
        with pytest.raises(NotReady, match="ended before it answered"):
            await (await asking(link))

    run(scene)


def test_questions_are_bounded():
    async def scene(link, worker):
        asked = [await asking(link) for _ in range(MOST_OPEN)]
        with pytest.raises(QueueFull, match=f"{MOST_OPEN} requests about adapters wait"):
            await (await asking(link))
        link.on_exit()
        assert {type(each) for each in await asyncio.gather(*asked, return_exceptions=True)} == {
            NotReady
        }

    run(scene)
