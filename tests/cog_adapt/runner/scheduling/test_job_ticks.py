"""A tick tells the caller what came of it, and says whether anything is left."""

import weakref
from typing import Any

import pytest

from cog_adapt.runner.scheduling.job_ticks import advance, advance_together, who_may_join
from cog_adapt.runner.scheduling.tickets import Job, SharedWork, Ticket


class Rows:
    """A part with some rows left, of which each tick does one."""

    def __init__(self, rows=1, ready=True):
        self.rows, self.ready = rows, ready

    @property
    def done(self):
        return not self.rows

    def news(self):
        return self.rows or None

    def run_with(self, others):
        for part in (self, *others):
            part.rows -= 1
        return [(part, 1 / (1 + len(others))) for part in (self, *others)]


class Broken(Rows):
    def run_with(self, others):
        raise KeyboardInterrupt


def work():
    yield 1
    return "done"


def job_of(part: SharedWork | None = None) -> tuple[Job, Ticket[Any]]:
    ticket: Ticket[Any] = Ticket()
    return Job(work(), ticket.outbox, weakref.ref(ticket), True, part=part), ticket


def test_a_job_advances_until_it_ends():
    job, ticket = job_of()
    assert advance(job)
    assert not advance(job)
    progress: list[Any] = []
    assert ticket.wait(progress.append) == "done"
    assert progress == [1]


def test_dropped_work_is_closed():
    job, ticket = job_of()
    advance(job)
    ticket.left = True
    assert not advance(job)
    assert job.work.gi_frame is None  # type: ignore[attr-defined]


def test_only_parts_that_are_ready_and_waited_for_may_join():
    job, _keep = job_of(Rows())
    ready, unready, plain = job_of(Rows()), job_of(Rows(ready=False)), job_of()
    left, ticket = job_of(Rows())
    ticket.left = True
    of_another_kind, _also_kept = job_of(Broken())
    others = [ready[0], unready[0], plain[0], left, of_another_kind]
    assert who_may_join(job, others) == [ready[0]]
    for one in (unready[0], plain[0], left):
        assert who_may_join(one, others) == []


def test_several_jobs_have_a_share_of_one_tick():
    (job, _a), (other, _b) = job_of(Rows()), job_of(Rows())
    assert advance_together(job, [other]) == [(job, 0.5), (other, 0.5)]
    assert job.part is not None
    assert job.part.done


def test_a_tick_that_fails_fails_the_one_whose_turn_it_was():
    (job, ticket), (other, _b) = job_of(Broken()), job_of(Rows())
    assert advance_together(job, [other]) == []
    with pytest.raises(KeyboardInterrupt):
        ticket.wait()
    assert other.part is not None
    assert not other.part.done
