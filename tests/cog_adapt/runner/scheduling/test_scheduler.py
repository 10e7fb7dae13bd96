"""One thread works tick by tick: short work between the ticks of long work, dropped work never."""

import asyncio
import contextlib
import gc
import sys
import threading
import weakref
from typing import Any

import pytest
import torch

from cog_adapt.runner.errors import UnavailableError
from cog_adapt.runner.scheduling.pause import Pause
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from gradient_check.tests.models import Cancelled
from gradient_check.tests.states import thread_modes
from tests.cog_adapt.waiting import assert_stays, assert_stays_so, until, wait_until


@pytest.fixture
def row():
    scheduler = Scheduler()
    yield scheduler
    scheduler.close()


def ticks(name, count, record):
    for number in range(count):
        record.append((name, number))
        yield number
    return name


def held(gate, started=None):
    """One long tick: it lasts until the gate opens, so that a test can line work up behind it."""
    if started is not None:
        started.set()
    gate.wait()
    yield


class Line:
    """Holds the model thread until everything a test needs has been handed in."""

    def __init__(self, row):
        self.row = row
        self.gate, started = threading.Event(), threading.Event()
        self.holder = row.submit_long(held(self.gate, started))
        started.wait()

    def release(self):
        self.gate.set()


def test_a_result_comes_back_with_the_progress_before_it(row):
    progress: list[Any] = []
    ticket = row.submit_long(ticks("a", 3, []))
    assert ticket.wait(progress.append) == "a"
    assert progress == [0, 1, 2]


def test_progress_is_streamed_until_the_work_ends_or_raises(row):
    def failing():
        yield 0
        raise ValueError("half way")

    async def read(work):
        return [piece async for piece in row.submit_short(work).stream_async()]

    assert asyncio.run(read(ticks("a", 3, []))) == [0, 1, 2]
    with pytest.raises(ValueError, match="half way"):
        asyncio.run(read(failing()))


def test_who_stops_reading_a_stream_drops_the_work(row):
    record: list[Any] = []

    async def read_one():
        pieces = row.submit_short(ticks("a", 1_000_000, record)).stream_async()
        first = await anext(pieces)
        await pieces.aclose()
        return first

    assert asyncio.run(read_one()) == 0
    row.submit_long(once(threading.get_ident)).wait()
    count = len(record)
    row.submit_long(once(threading.get_ident)).wait()
    assert len(record) == count < 1_000_000


def test_all_work_runs_on_one_thread_which_is_not_the_callers(row):
    names = {row.submit_short(once(threading.get_ident)).wait() for _ in range(5)}
    names |= {row.submit_long(once(threading.get_ident)).wait() for _ in range(5)}
    assert len(names) == 1
    assert threading.get_ident() not in names


def test_long_work_takes_turns_a_tick_each(row):
    record: list[Any] = []
    line = Line(row)
    tickets = [row.submit_long(ticks(name, 3, record)) for name in "ab"]
    line.release()
    assert [ticket.wait() for ticket in tickets] == ["a", "b"]
    assert record == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def test_who_comes_during_anothers_short_tick_waits_for_no_tick_of_long_work(row):
    record: list[Any] = []
    long = row.submit_long(ticks("long", 1_000_000, record))
    gate, started = threading.Event(), threading.Event()
    first = row.submit_short(held(gate, started))
    started.wait()
    before = len(record)
    second = row.submit_short(ticks("second", 1, record), owner="bob")
    gate.set()
    assert second.wait() == "second"
    assert record.index(("second", 0)) == before
    first.wait()
    del long  # whose work is dropped with it


def test_short_work_is_done_in_the_order_it_came(row):
    record: list[Any] = []
    line = Line(row)
    tickets = [row.submit_short(ticks(name, 1, record)) for name in "abcd"]
    line.release()
    assert [ticket.wait() for ticket in tickets] == list("abcd")
    assert [name for name, _ in record] == list("abcd")


@pytest.mark.parametrize("long", [1, 2, 5])
def test_a_prediction_waits_for_at_most_one_tick_of_long_work(row, long):
    """The prediction arrives inside a long tick; no other long tick comes before it."""
    record = []

    def handing_in():
        record.append("long, in which the prediction arrives")
        arrived.append(row.submit_short(once(record.append, "prediction")))
        yield
        yield

    def others():
        for _ in range(3):
            record.append("long")
            yield

    arrived: list[Any] = []
    line = Line(row)
    tickets = [row.submit_long(handing_in())] + [row.submit_long(others()) for _ in range(long)]
    line.release()
    for ticket in [*tickets, *arrived]:
        ticket.wait()
    at = record.index("long, in which the prediction arrives")
    assert record[at + 1] == "prediction"


def test_every_waiting_prediction_is_served_between_two_long_ticks(row):
    record: list[Any] = []
    line = Line(row)
    long = row.submit_long(ticks("long", 3, record))
    shorts = [row.submit_short(ticks(name, 3, record)) for name in "ab"]
    line.release()
    for ticket in [long, *shorts]:
        ticket.wait()
    shorts_only = [("a", 0), ("b", 0)]  # the long tick after these is the line holder's last
    assert record == [
        *shorts_only,
        *[("a", 1), ("b", 1), ("long", 0)],
        *[("a", 2), ("b", 2), ("long", 1), ("long", 2)],
    ]


def test_work_that_was_let_go_of_never_begins(row):
    record: list[Any] = []
    line = Line(row)
    tickets = [row.submit_long(ticks("a", 3, record)), row.submit_short(ticks("b", 3, record))]
    tickets.clear()
    line.release()
    assert row.submit_long(once(len, row)).wait() == 0
    assert record == []


def test_work_that_is_let_go_of_is_closed(row):
    closed = threading.Event()

    def work():
        try:
            while True:
                yield
        finally:
            closed.set()

    ticket = row.submit_long(work())
    row.submit_long(once(int)).wait()
    assert not closed.is_set()
    del ticket
    assert closed.wait(10)


def test_work_that_is_under_way_is_closed_at_its_next_tick(row):
    record: list[Any] = []
    ticket = row.submit_long(ticks("endless", 10**9, record))

    def stop(number):
        if number == 3:
            raise Cancelled

    with pytest.raises(Cancelled):  # pytest keeps the exception, and so the ticket with it
        ticket.wait(stop)
    row.submit_long(once(int)).wait()
    taken = len(record)
    assert row.submit_long(once(len, row)).wait() == 0
    assert len(record) == taken


def test_a_dropped_generator_is_freed_with_what_it_holds(row):
    class Weights:
        pass

    def work(weights):
        while True:
            yield weights

    weights = Weights()
    gone = weakref.ref(weights)
    ticket = row.submit_long(work(weights))
    del weights, ticket
    row.submit_long(once(int)).wait()
    row.submit_long(once(int)).wait()
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize(
    "error",
    [ValueError("no"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Cancelled()],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_any_kind_reaches_its_caller_and_the_thread_goes_on(row, error):
    def failing():
        raise error
        yield

    with pytest.raises(type(error)) as caught:
        row.submit_long(failing()).wait()
    assert caught.value is error
    assert row.submit_short(once(int)).wait() == 0


def test_an_error_gives_back_the_memory_of_its_frames(row):
    class Activations:
        pass

    seen = []

    def failing():
        activations = Activations()
        seen.append(weakref.ref(activations))
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("outer") from error
        yield activations

    with pytest.raises(ValueError, match="outer") as kept:
        row.submit_long(failing()).wait()
    gc.collect()
    assert kept.value.__cause__ is not None
    assert seen[0]() is None


def test_an_error_that_is_its_own_cause_passes_too(row):
    def failing():
        try:
            raise ValueError("no")
        except ValueError as error:
            raise error from error
        yield

    ticket = row.submit_long(failing())
    message = ticket.outbox.get(timeout=10)
    assert isinstance(message.error, ValueError)
    message.error.__cause__ = None  # pytest follows causes for ever as well


def test_an_error_while_dropped_work_is_closed_does_not_end_the_thread(row, caplog):
    def stubborn():
        try:
            while True:
                yield
        finally:
            raise SystemExit(1)

    ticket = row.submit_long(stubborn())
    row.submit_long(once(int)).wait()
    del ticket
    assert row.submit_long(once(int)).wait() == 0
    assert row.submit_long(once(int)).wait() == 0
    assert "abandoned work failed" in caplog.text


def test_each_tick_begins_with_pytorchs_default_modes(row):
    fresh = row.submit_long(once(thread_modes)).wait()

    def leave_everything_on():
        torch.set_grad_enabled(False)
        torch.set_autocast_enabled("cpu", True)
        torch.autocast_increment_nesting()
        torch.autocast_increment_nesting()
        yield

    row.submit_long(leave_everything_on()).wait()
    assert row.submit_long(once(thread_modes)).wait() == fresh
    assert fresh["grad"]
    assert not fresh["autocast cpu"]
    assert fresh["nesting"] == 1


def is_alive(name):
    return name in {thread.name for thread in threading.enumerate()}


def test_closing_tells_whoever_waits_and_ends_the_thread():
    row = Scheduler("closed")
    line = Line(row)
    errors, waiting = [], []

    def wait(ticket):
        try:
            ticket.wait()
        except UnavailableError as error:
            errors.append(str(error))

    for submit in (row.submit_long, row.submit_short, row.submit_long):
        waiting.append(threading.Thread(target=wait, args=(submit(ticks("a", 10**9, [])),)))
    waiting.append(threading.Thread(target=wait, args=(line.holder,)))
    for thread in waiting:
        thread.start()
    line.release()
    row.close()
    for thread in waiting:
        thread.join(10)
        assert not thread.is_alive()
    assert len(errors) >= 3
    assert all("closed" in error for error in errors)
    assert not is_alive("closed")


def test_a_closed_scheduler_refuses_work_and_can_be_closed_again():
    row = Scheduler()
    row.close()
    row.close()
    with pytest.raises(UnavailableError, match="closed"):
        row.submit_short(once(int))


def test_work_may_close_its_own_scheduler():
    row = Scheduler("closes itself")
    row.submit_long(once(row.close)).wait()
    wait_until(lambda: not is_alive("closes itself"))


def test_work_handed_in_while_it_closes_is_answered():
    """Whichever comes first, no caller waits for ever."""
    for _ in range(200):
        row = Scheduler()
        closing = threading.Thread(target=row.close)
        closing.start()
        with contextlib.suppress(UnavailableError):
            assert row.submit_short(once(int)).wait() == 0
        closing.join()


def test_a_caller_on_an_event_loop_waits_without_blocking_it(row):
    async def scene():
        line = Line(row)
        progress: list[Any] = []
        waiting = asyncio.create_task(
            row.submit_long(ticks("a", 3, [])).wait_async(progress.append)
        )
        await assert_stays_so(lambda: not waiting.done(), 0.02)
        line.release()
        return await waiting, progress

    assert asyncio.run(scene()) == ("a", [0, 1, 2])


def test_an_error_reaches_a_caller_on_an_event_loop(row):
    def failing():
        raise ValueError("no")
        yield

    with pytest.raises(ValueError, match="no"):
        asyncio.run(row.submit_long(failing()).wait_async())


def test_cancelling_a_task_drops_its_work(row):
    async def scene():
        begun: list[Any] = []
        waiting = asyncio.create_task(row.submit_long(ticks("a", 10**9, begun)).wait_async())
        await until(lambda: begun)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(scene())
    row.submit_long(once(int)).wait()
    assert row.submit_long(once(len, row)).wait() == 0


def test_many_callers_each_get_their_own_answer(row):
    answers = {}

    def call(number):
        submit = row.submit_short if number % 3 else row.submit_long
        answers[number] = submit(ticks(number, number % 5, [])).wait()

    threads = [threading.Thread(target=call, args=(n,)) for n in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == {n: n for n in range(60)}


def test_once_closed_the_thread_has_ended():
    scheduler = Scheduler("ending")
    scheduler.submit_long(once(int)).wait()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "ending"]
    scheduler.close()
    assert not thread.is_alive()


def test_the_frames_of_an_error_behind_another_are_emptied_too(row):
    class Big:
        pass

    kept = []

    def failing():
        big = Big()
        kept.append(weakref.ref(big))
        raise ValueError("first")

    def work():
        try:
            failing()
        except ValueError:
            raise KeyError("second")  # noqa: B904 - the first is its context, not its cause

    with pytest.raises(KeyError) as caught:
        row.submit_long(once(work)).wait()
    gc.collect()
    assert isinstance(caught.value.__context__, ValueError)
    assert kept[0]() is None


def test_how_long_the_running_tick_has_lasted_and_may_can_be_asked(row):
    assert row.beat() == (0.0, 0.0)
    gate, started = threading.Event(), threading.Event()
    ticket = row.submit_long(held(gate, started), 600.0)
    started.wait()
    first, later = row.beat(), row.beat()
    assert 0 < first[0] <= later[0] < 60
    assert (first[1], later[1]) == (600.0, 600.0)
    gate.set()
    ticket.wait()
    row.submit_long(once(int)).wait()
    while row.beat() != (0.0, 0.0):  # its answer goes out before its tick has ended
        continue


def test_each_tick_is_counted_anew(row):
    seen = []

    def work():
        for _ in range(3):
            seen.append(row.beat()[0])
            threading.Event().wait(0.05)
            yield

    row.submit_short(work()).wait()
    assert all(seconds < 0.04 for seconds in seen)


def test_a_model_thread_that_died_looks_hung(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda *_: None)
    row = Scheduler("dies")
    row.explain = lambda error: sys.exit()
    ticket = row.submit_long(once(int, "no number"))
    wait_until(lambda: not is_alive("dies"))
    assert row.beat()[0] > 0
    row.close()
    del ticket


class Clock:
    """Seconds that pass only where a test's work says so."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clocked():
    clock = Clock()
    scheduler = Scheduler(clock=clock)
    yield scheduler, clock
    scheduler.close()


def costly(clock, seconds, name, record, ticks=1):
    for _ in range(ticks):
        clock.now += seconds
        record.append(name)
        yield


def test_a_hundred_requests_of_one_owner_do_not_starve_another(clocked):
    row, clock = clocked
    record: list[Any] = []
    line = Line(row)
    many = [row.submit_short(costly(clock, 0.1, "ann", record, 3), "ann") for _ in range(100)]
    few = [row.submit_short(costly(clock, 0.1, "bob", record, 3), "bob") for _ in range(2)]
    line.release()
    for ticket in (*few, *many):
        ticket.wait()
    assert record[:12].count("bob") == 6
    assert len(record) == 306


def test_what_an_owners_long_work_took_counts_against_its_short_work(clocked):
    row, clock = clocked
    record: list[Any] = []
    tickets: list[Any] = []

    def step():
        clock.now += 5.0
        for owner in ("ann", "bob"):
            work = costly(clock, 0.1, owner, record, 5)
            tickets.append(row.submit_short(work, owner))
        yield

    row.submit_long(step(), owner="ann").wait()
    for ticket in tickets:
        ticket.wait()
    assert record[:2] == ["bob", "bob"]  # then comes the step's last tick, which is ann's


def test_long_work_waits_for_no_more_than_a_round_of_short_work(clocked):
    row, clock = clocked
    record: list[Any] = []
    line = Line(row)
    shorts = [row.submit_short(costly(clock, 0.2, "short", record)) for _ in range(30)]
    long = row.submit_long(costly(clock, 0.1, "long", record))
    line.release()
    for ticket in (*shorts, long):
        ticket.wait()
    assert record.index("long") <= 7  # after the line's holder, whose second tick comes first


class Sharing:
    """A part of two rows a tick, whichever part they are of."""

    def __init__(self, rows, record, ready=True):
        self.rows, self.record, self.ready = rows, record, ready

    @property
    def done(self):
        return self.rows == 0

    def run_with(self, others):
        parts = [part for part in (self, *others) if part.rows][:2]
        for part in parts:
            part.rows -= 1
        self.record.append(len(parts))
        return [(part, 1 / len(parts)) for part in parts]

    def news(self):
        return self.rows or None

    def working(self):
        while self.rows:
            self.rows -= 1
            self.record.append(1)
            yield
        return "done"


def submit_part(row, part, owner=""):
    return row.submit_short(part.working(), owner, part)


def test_parts_of_several_callers_share_a_tick(row):
    record: list[Any] = []
    line = Line(row)
    tickets = [submit_part(row, Sharing(1, record), owner) for owner in "abcd"]
    line.release()
    assert [ticket.wait() for ticket in tickets] == ["done"] * 4
    assert record == [2, 2]


def test_what_a_shared_tick_made_of_a_part_is_its_callers_progress(row):
    record: list[Any] = []
    line = Line(row)
    tickets = [submit_part(row, Sharing(3, record)) for _ in range(2)]
    line.release()
    told: list[list[Any]] = [[], []]
    for ticket, seen in zip(tickets, told, strict=True):
        assert ticket.wait(seen.append) == "done"
    assert told == [[2, 1], [2, 1]]
    assert record == [2, 2, 2]


class Closed(Sharing):
    """A part that notes when its work is closed."""

    def working(self):
        try:
            while True:
                yield
        finally:
            self.record.append("closed")


def test_a_part_whose_caller_left_is_closed_in_the_next_tick_whoever_has_it(row):
    record: list[Any] = []
    line = Line(row)
    going = submit_part(row, Sharing(1, record), "anna")
    part = Closed(9, record, ready=False)
    work = part.working()
    next(work)
    left = row.submit_short(work, "bert", part)
    left.left = True
    line.release()
    assert going.wait() == "done"
    assert record == ["closed", 1]


def test_parts_that_are_not_ready_or_whose_caller_left_share_none(row):
    record: list[Any] = []
    line = Line(row)
    parts = [Sharing(1, record), Sharing(1, record, ready=False), Sharing(1, record)]
    tickets = [submit_part(row, part) for part in parts]
    del tickets[2]
    line.release()
    assert [ticket.wait() for ticket in tickets] == ["done"] * 2
    assert record == [1, 1]
    assert parts[2].rows == 1


def test_a_shared_tick_that_fails_fails_the_one_whose_turn_it_was(row):
    def fail(others):
        raise SystemExit(3)

    line = Line(row)
    record: list[Any] = []
    broken: Any = Sharing(1, record)
    broken.run_with = fail
    first, second = submit_part(row, broken), submit_part(row, Sharing(1, record))
    line.release()
    with pytest.raises(SystemExit):
        first.wait()
    assert second.wait() == "done"


def test_long_work_pauses_while_it_may_not_advance_and_short_work_does_not(row):
    may_advance = threading.Event()
    row.pause.unless(may_advance.is_set)
    record: list[Any] = []
    long = row.submit_long(ticks("long", 2, record))
    assert row.submit_short(ticks("short", 1, record)).wait() == "short"
    assert_stays(lambda: record == [("short", 0)], 0.2)
    may_advance.set()
    assert long.wait() == "long"


def test_long_work_goes_on_after_a_pause_of_ten_seconds():
    now = [0.0]
    scheduler = Scheduler(clock=lambda: now[0])
    try:
        scheduler.pause.unless(lambda: False)
        long = scheduler.submit_long(ticks("long", 1, []))
        assert scheduler.submit_short(ticks("short", 1, [])).wait() == "short"
        for now[0] in (5.0, 9.0):
            assert_stays(lambda: not scheduler.pause.is_over(), 0.1)  # the scheduler asks too
        now[0] = 12.0
        assert long.wait() == "long"
    finally:
        scheduler.close()


def test_each_pause_has_its_own_ten_seconds():
    now, may_advance = [0.0], False
    pause = Pause(lambda: now[0])
    pause.unless(lambda: may_advance)
    assert (pause.is_on(), pause.is_over()) == (True, False)
    now[0] = 5.0
    assert pause.is_on()
    # the paused work is cancelled, so nobody asks again before the next pause
    now[0] = 100.0
    assert pause.is_on()
    for now[0] in (105.0, 111.0):
        pause.is_on()
    assert (pause.is_on(), pause.is_over()) == (False, True)
    may_advance = True
    assert (pause.is_on(), pause.is_over()) == (False, False)
    may_advance = False
    now[0] = 112.0
    assert pause.is_on()


def test_ticks_are_counted_by_their_time_and_by_the_requests_that_share_them(row):
    row.submit_long(ticks("a", 3, [])).wait()
    row.submit_short(ticks("b", 1, [])).wait()
    row.close()  # the last tick is counted after its result is told
    found = row.ticks.gauges()
    assert {name: sum(each["counts"]) for name, each in found.items()} == {
        "prediction_tick_seconds": 2,
        "adaptation_tick_seconds": 4,
        "prediction_tick_requests": 2,
    }
    assert found["prediction_tick_requests"]["counts"][0] == 2
    assert found["adaptation_tick_seconds"]["sum"] > 0
