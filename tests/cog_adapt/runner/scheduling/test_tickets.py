"""A ticket waits for the last message; leaving or dropping it marks the job as dropped."""

import asyncio
import threading
import weakref
from typing import Any

import pytest

from cog_adapt.runner.scheduling.scheduler import once
from cog_adapt.runner.scheduling.tickets import EndMessage, Job, Ticket
from tests.cog_adapt.waiting import assert_stays_so, wait_until


def job_of(ticket):
    return Job(once(int), ticket.outbox, weakref.ref(ticket), True)


def test_the_result_ends_a_wait_and_progress_comes_before_it():
    ticket: Ticket[str] = Ticket()
    progress: list[Any] = []
    for message in (1, 2, EndMessage("done")):
        ticket.outbox.put(message)
    assert ticket.wait(progress.append) == "done"
    assert progress == [1, 2]


def test_an_error_is_raised_where_one_waits():
    ticket: Ticket[str] = Ticket()
    ticket.outbox.put(EndMessage(error=ValueError("no")))
    with pytest.raises(ValueError, match="no"):
        asyncio.run(ticket.wait_async())


def test_a_job_is_dropped_once_its_ticket_is_gone_or_left():
    ticket: Ticket[str] = Ticket()
    job = job_of(ticket)
    assert not job.dropped
    ticket.outbox.put(EndMessage("done"))
    ticket.wait()
    assert job.dropped
    gone: Ticket[str] = Ticket()
    job = job_of(gone)
    del gone
    assert job.dropped


def test_an_event_loop_sleeps_until_a_message_comes_and_gets_all_of_them():
    ticket: Ticket[str] = Ticket()
    outbox, seen = ticket.outbox, []
    waits: list[int] = []

    class Watched(type(outbox)):  # type: ignore[misc]
        async def filled(self):
            waits.append(1)
            await super().filled()
            waits.pop()

    outbox.__class__ = Watched

    def tell():
        for number in range(200):
            if number % 20 == 0:
                wait_until(lambda: waits and outbox.empty())  # the caller has begun to wait
            outbox.put(number)
        outbox.put(EndMessage("done"))

    teller = threading.Thread(target=tell)

    async def told():
        teller.start()
        async for message in ticket.stream_async():
            seen.append(message)

    asyncio.run(asyncio.wait_for(told(), 30))
    teller.join()
    assert seen == [*range(200)]


def test_who_waits_on_an_event_loop_is_not_run_until_a_message_comes():
    ticket: Ticket[str] = Ticket()
    outbox = ticket.outbox
    looks = []
    empty = type(outbox).empty

    class Watched(type(outbox)):  # type: ignore[misc]
        def empty(self):
            looks.append(1)
            return empty(self)

    outbox.__class__ = Watched

    async def told():
        wait = asyncio.create_task(ticket.wait_async())
        await assert_stays_so(lambda: not wait.done(), 0.3)
        outbox.put(EndMessage("done"))
        return await wait

    assert asyncio.run(told()) == "done"
    assert len(looks) == 2  # before the wait, and after it


def test_a_message_for_a_loop_that_is_closed_is_kept():
    ticket: Ticket[str] = Ticket()
    loop = asyncio.new_event_loop()
    waits = loop.create_task(ticket.wait_async())
    loop.run_until_complete(asyncio.sleep(0))
    outbox = ticket.outbox
    loop.close()
    outbox.put(EndMessage("done"))
    assert outbox.get_nowait().result == "done"
    del waits
