"""How often a worker has died, and when it is given up."""

import pytest

from cog_adapt.server.service.crashes import CrashCounter


def crashed(times, most=100):
    counter = CrashCounter(most)
    for number in range(times):
        counter.add(f"cause {number}")
    return counter


def test_at_first_there_is_none():
    counter = CrashCounter(1)
    assert (counter.count, counter.last, counter.is_too_many) == (0, None, False)


def test_crashes_are_counted_and_the_last_cause_is_known():
    counter = crashed(2)
    assert (counter.count, counter.last) == (2, "cause 1")


@pytest.mark.parametrize(("times", "is_too_many"), [(2, False), (3, True), (4, True)])
def test_so_many_in_a_row_are_too_many(times, is_too_many):
    assert crashed(times, 3).is_too_many is is_too_many


def test_a_worker_that_works_begins_a_new_row_and_keeps_its_count():
    counter = crashed(2, 3)
    counter.forgive()
    counter.add("again")
    assert (counter.count, counter.is_too_many, counter.pause) == (3, False, 0.1)


@pytest.mark.parametrize(
    ("times", "seconds"), [(0, 0.1), (1, 0.1), (2, 0.4), (3, 1.6), (5, 25.6), (6, 30.0), (9, 30.0)]
)
def test_each_pause_is_four_times_the_one_before_up_to_half_a_minute(times, seconds):
    assert crashed(times).pause == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("times", "seconds"), [(3, 10), (4, 20), (5, 40), (7, 160), (8, 300), (50, 300)]
)
def test_one_that_is_defunct_rests_longer_each_time_up_to_five_minutes(times, seconds):
    assert crashed(times, 3).pause == seconds


def test_what_is_no_fault_of_the_workers_is_counted_apart():
    counter = crashed(2, 3)
    counter.note("a poison")
    assert (counter.count, counter.last, counter.is_too_many) == (3, "a poison", False)
    assert counter.pause == 0.4
