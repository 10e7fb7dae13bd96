"""One tick of one job, or of several at once. This module knows no queue and no model."""

import logging
import traceback
from collections.abc import Callable, Iterable, Sequence

from cog_adapt.runner.scheduling.tickets import EndMessage, Job

logger = logging.getLogger(__name__)
Explain = Callable[[BaseException], BaseException]
"""Turns an exception raised by work into the one that its caller sees."""


def unchanged(error: BaseException) -> BaseException:
    """Return the exception unchanged."""
    return error


def advance(job: Job, explain: Explain = unchanged) -> bool:
    """Run one tick of a job and inform its caller; return whether the job continues."""
    if job.dropped:
        abandon(job)
        return False
    try:
        job.outbox.put(next(job.work))
    except StopIteration as stop:
        job.outbox.put(EndMessage(result=stop.value))
    except BaseException as error:  # noqa: BLE001 - the caller's to see, whatever it is
        _fail(job, error, explain)
    else:
        return True
    return False


def who_may_join(job: Job, others: Iterable[Job]) -> list[Job]:
    """Return the jobs that may have a part in the same tick."""
    if job.dropped or job.part is None or not job.part.ready:
        return []
    return [
        other
        for other in others
        if type(other.part) is type(job.part) and other.part.ready and not other.dropped
    ]


def advance_together(
    job: Job, others: Sequence[Job], explain: Explain = unchanged
) -> list[tuple[Job, float]]:
    """Run one tick for a job, and for those of the other jobs that can share the tick.

    Returns:
        Each job in the tick, with the job's share of the cost. If the tick failed, only the job
        whose turn it was, which has failed, too.
    """
    assert job.part is not None
    jobs = {id(one.part): one for one in (job, *others)}
    try:
        shares = job.part.run_with([other.part for other in others])
    except BaseException as error:  # noqa: BLE001 - the caller's to see, whatever it is
        _fail(job, error, explain)
        abandon(job)
        return []
    for part, _ in shares:
        news = part.news()
        if news is not None:
            jobs[id(part)].outbox.put(news)
    return [(jobs[id(part)], share) for part, share in shares]


def abandon(job: Job) -> None:
    """Close work without a caller; log errors of its clean-up, which no caller would see."""
    try:
        job.work.close()
    except BaseException:  # the thread must survive the clean-up of any model
        logger.exception("abandoned work failed while it was closed")


def _fail(job: Job, error: BaseException, explain: Explain) -> None:
    _clear_frames(error)
    job.outbox.put(EndMessage(error=explain(error)))


def _clear_frames(error: BaseException) -> None:
    """Clear the frames of an error and its causes: their locals would keep activations alive."""
    seen: set[int] = set()  # an error may be its own cause
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
