"""A ticket waits for the last message; leaving or dropping it marks the job as dropped."""

import asyncio
import weakref
from typing import Any

import pytest

from cog_adapt.runner.scheduling.scheduler import once
from cog_adapt.runner.scheduling.tickets import Ended, Job, Ticket


def job_of(ticket):
    return Job(once(int), ticket.outbox, weakref.ref(ticket), True)


def test_the_result_ends_a_wait_and_progress_comes_before_it():
    ticket: Ticket[str] = Ticket()
    progress: list[Any] = []
    for message in (1, 2, Ended("done")):
        ticket.outbox.put(message)
    assert ticket.wait(progress.append) == "done"
    assert progress == [1, 2]


def test_an_error_is_raised_where_one_waits():
    ticket: Ticket[str] = Ticket()
    ticket.outbox.put(Ended(error=ValueError("no")))
    with pytest.raises(ValueError, match="no"):
        asyncio.run(ticket.wait_async())


def test_a_job_is_dropped_once_its_ticket_is_gone_or_left():
    ticket: Ticket[str] = Ticket()
    job = job_of(ticket)
    assert not job.dropped
    ticket.outbox.put(Ended("done"))
    ticket.wait()
    assert job.dropped
    gone: Ticket[str] = Ticket()
    job = job_of(gone)
    del gone
    assert job.dropped
