"""What is asked twice at the same moment runs once, for all who ask."""

import asyncio
import gc
import queue
import threading
import weakref
from typing import Any

import pytest

from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.scheduling.claims import Turn
from cog_adapt.runner.scheduling.scheduler import Scheduler
from cog_adapt.runner.scheduling.shared_runs import RunStart, SharedRuns
from tests.cog_adapt.waiting import wait_until


class Work:
    """Work on a scheduler that yields what it is given, and ends when it is told."""

    def __init__(self):
        self.scheduler, self.runs = Scheduler(), SharedRuns()
        self.progress: queue.SimpleQueue = queue.SimpleQueue()
        self.begun = self.closed = self.concluded = 0

    def running(self):
        try:
            while True:
                item = self.progress.get() if not self.progress.empty() else None
                if isinstance(item, BaseException):
                    raise item
                if item == "end":
                    return "result"
                yield item
        finally:
            self.closed += 1

    def begin(self):
        self.begun += 1
        return RunStart(self.scheduler.submit_long(self.running()), self.conclude)

    def conclude(self, done):
        self.concluded += 1
        return f"{done} {self.begun}"

    async def follow(self, shown, key="key"):
        return await self.runs.follow(key, self.begin, shown.append)


@pytest.fixture
def work():
    made = Work()
    yield made
    made.progress.put("end")
    made.scheduler.close()
    made.runs.close()


async def until(condition):
    while not condition():
        await asyncio.sleep(0)


def test_all_who_ask_get_all_progress_and_one_result(work):
    async def asked():
        first: list[int] = []
        late: list[int] = []
        one = asyncio.create_task(work.follow(first))
        for item in (1, 2):
            work.progress.put(item)
        await until(lambda: first == [1, 2])
        other = asyncio.create_task(work.follow(late))
        await until(lambda: late == [1, 2])
        work.progress.put(3)
        work.progress.put("end")
        assert [*await asyncio.gather(one, other)] == ["result 1", "result 1"]
        assert first == late == [1, 2, 3]

    asyncio.run(asked())
    assert (work.begun, work.concluded) == (1, 1)
    assert "key" not in work.runs


class Large:
    """Progress of which the newest alone is kept."""

    newest_only = True


async def sent(work, item, shown):
    """Put progress, and wait until a follower was shown it."""
    work.progress.put(item)
    count = len(shown) + 1
    await until(lambda: len(shown) == count)


def test_of_large_progress_only_the_newest_is_kept(work):
    async def asked():
        first: list[Any] = []
        late: list[Any] = []
        one = asyncio.create_task(work.follow(first))
        newest = Large()
        await sent(work, 1, first)
        await sent(work, Large(), first)
        await sent(work, 2, first)
        await sent(work, newest, first)
        dropped = weakref.ref(first.pop(1))
        gc.collect()
        assert dropped() is None
        other = asyncio.create_task(work.follow(late))
        work.progress.put("end")
        await asyncio.gather(one, other)
        assert late == [1, 2, newest]

    asyncio.run(asked())


def test_another_key_is_another_run(work):
    async def asked():
        tasks = [asyncio.create_task(work.follow([], key)) for key in ("one", "two")]
        await until(lambda: work.begun == 2)
        work.progress.put("end")
        work.progress.put("end")
        await asyncio.gather(*tasks)

    asyncio.run(asked())
    assert work.concluded == 2


def test_who_leaves_stops_nobody_else_and_the_last_one_cancels(work):
    async def asked():
        shown: list[int] = []
        tasks = [asyncio.create_task(work.follow(shown)) for _ in range(3)]
        work.progress.put(1)
        await until(lambda: shown == [1, 1, 1])
        for task in tasks[:2]:
            task.cancel()
        await asyncio.wait(tasks[:2])
        assert "key" in work.runs
        assert work.closed == 0
        tasks[2].cancel()
        await asyncio.wait(tasks)
        assert all(task.cancelled() for task in tasks)

    asyncio.run(asked())
    wait_until(lambda: work.closed == 1)
    assert "key" not in work.runs
    assert work.concluded == 0


def test_it_fails_for_all_with_the_same_error(work):
    async def asked():
        tasks = [asyncio.create_task(work.follow([])) for _ in range(3)]
        await until(lambda: work.begun)
        work.progress.put(ZeroDivisionError("of the work"))
        return await asyncio.gather(*tasks, return_exceptions=True)

    errors = asyncio.run(asked())
    assert [str(error) for error in errors] == ["of the work"] * 3
    assert len({id(error) for error in errors}) == 1
    assert work.begun == 1


def test_what_one_caller_raises_while_it_is_shown_progress_stops_nobody_else(work):
    def refuse(_item):
        raise OSError("gone")

    async def asked():
        shown: list[int] = []
        one = asyncio.create_task(work.follow(shown))
        other = asyncio.create_task(work.runs.follow("key", work.begin, refuse))
        await until(lambda: work.begun)
        work.progress.put(1)
        with pytest.raises(OSError, match="gone"):
            await other
        work.progress.put("end")
        return await one

    assert asyncio.run(asked()) == "result 1"


def test_callers_may_be_on_different_threads_and_loops(work):
    results: list[str] = []
    shown: list[list[int]] = [[] for _ in range(4)]

    def follow(own):
        results.append(asyncio.run(work.follow(own)))

    threads = [threading.Thread(target=follow, args=(own,)) for own in shown]
    for thread in threads:
        thread.start()
    work.progress.put(1)
    wait_until(lambda: all(shown))  # all of them follow
    work.progress.put("end")
    for thread in threads:
        thread.join()
    assert results == ["result 1"] * 4
    assert work.begun == 1


def test_a_result_that_came_meanwhile_begins_nothing(work):
    assert asyncio.run(work.runs.follow("key", lambda: "known", print)) == "known"
    assert "key" not in work.runs


def test_one_that_cannot_begin_leaves_nothing(work):
    work.scheduler.close()
    with pytest.raises(UnavailableError):
        asyncio.run(work.follow([]))
    assert "key" not in work.runs


def test_a_runner_that_closes_fails_those_who_wait(work):
    async def asked():
        task = asyncio.create_task(work.follow([]))
        await until(lambda: work.begun)
        await asyncio.to_thread(work.scheduler.close)
        with pytest.raises(UnavailableError, match="was closed meanwhile"):
            await task

    asyncio.run(asked())


def test_a_follower_that_is_collected_while_another_joins_stops_nobody(work):
    async def scenario():
        left = work.runs.follow("first", work.begin, print)
        left.send(None)  # follows until its next look

        def begin():
            left.close()  # as a collection of garbage does, at any allocation
            return "answer"

        return await work.runs.follow("second", begin, print)

    answers = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(scenario())), daemon=True)
    thread.start()
    thread.join(20)
    assert answers == ["answer"]
    assert "first" not in work.runs


class Claimed:
    """The claim to a run, which a test grants."""

    is_held = is_waiting = False
    releases = 0

    def release(self):
        self.releases += 1


@pytest.fixture
def claim():
    return Claimed()


def in_turn(work, claim, patience=None):
    """A run that begins when its claim is held; notes how long it waited."""
    waits: list[float] = []

    def begin(waited):
        waits.append(waited)
        return work.begin()

    return Turn(lambda: claim, begin, notice="another is at it", patience=patience), waits


def test_a_run_begins_in_its_turn_and_gives_it_up_at_its_end(work, claim):
    async def asked():
        shown: list[object] = []
        turn, waits = in_turn(work, claim)
        followers = [
            asyncio.create_task(work.runs.follow("key", turn, each)) for each in (shown.append, str)
        ]
        claim.is_waiting = True
        await until(lambda: shown == ["another is at it"])
        assert work.begun == 0
        claim.is_held, claim.is_waiting = True, False
        await until(lambda: work.begun)
        assert claim.releases == 0
        work.progress.put("end")
        assert [*await asyncio.gather(*followers)] == ["result 1", "result 1"]
        assert claim.releases
        assert waits[0] > 0

    asyncio.run(asked())


def test_a_run_that_waits_for_nobody_has_waited_for_no_time(work, claim):
    async def asked():
        claim.is_held = True
        turn, waits = in_turn(work, claim)
        work.progress.put("end")
        assert await work.runs.follow("key", turn, str) == "result 1"
        assert waits == [0]

    asyncio.run(asked())


def test_who_leaves_before_the_turn_has_come_stops_waiting(work, claim):
    async def asked():
        task = asyncio.create_task(work.runs.follow("key", in_turn(work, claim)[0], str))
        await until(lambda: "key" in work.runs)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert claim.releases
        assert (work.begun, "key" in work.runs) == (0, False)

    asyncio.run(asked())


def test_what_has_ended_elsewhere_is_the_result(work, claim):
    async def asked():
        claim.is_held = True
        turn = Turn(lambda: claim, lambda _waited: "known")
        assert await work.runs.follow("key", turn, str) == "known"
        assert claim.releases

    asyncio.run(asked())


def test_an_error_at_the_beginning_is_each_followers_and_gives_the_turn_up(work, claim):
    async def asked():
        def begin(_waited):
            raise OSError("no file")

        claim.is_held = True
        with pytest.raises(OSError, match="no file"):
            await work.runs.follow("key", Turn(lambda: claim, begin), str)
        assert claim.releases

    asyncio.run(asked())


def test_patience_ends_the_wait(work, claim):
    async def asked():
        work.progress.put("end")
        turn, _ = in_turn(work, claim, patience=0.01)
        assert await work.runs.follow("key", turn, str) == "result 1"

    asyncio.run(asked())


def test_a_run_that_may_not_begin_yet_is_asked_again(work, claim):
    async def asked():
        answers = [None, None, "known"]
        claim.is_held = True
        turn = Turn(lambda: claim, lambda _waited: answers.pop(0))
        assert await work.runs.follow("key", turn, str) == "known"
        assert (answers, claim.releases > 0) == ([], True)

    asyncio.run(asked())
