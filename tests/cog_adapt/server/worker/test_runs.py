"""Cancels come by a socket of their own, so perhaps before their run or after its end."""

from cog_adapt.server.protocol import Cancel
from cog_adapt.server.worker.runs import Cancels


def test_a_cancel_that_overtakes_its_run_is_kept_for_it():
    cancels = Cancels()
    cancels.add(Cancel("b", runs=2))
    assert not cancels.begin("a")
    assert cancels.begin("b")


def test_a_cancel_that_comes_after_the_end_does_not_hit_the_next_run_of_that_id():
    cancels = Cancels()
    cancels.begin("a")
    cancels.add(Cancel("a", runs=1))
    assert not cancels.begin("a")


def test_one_that_comes_late_while_others_have_not_begun_is_for_none_of_them():
    cancels = Cancels()
    cancels.begin("a")
    cancels.add(Cancel("a", runs=2))  # the second run is b, which is not read yet
    assert not cancels.begin("b")
    assert not cancels.begin("a")


def test_what_came_while_its_run_went_on_is_forgotten():
    cancels = Cancels()
    for number in range(1, 200, 2):
        cancels.begin(f"running {number}")
        cancels.add(Cancel(f"running {number}", runs=number + 1))  # the next one is not read yet
        cancels.begin("another")
    assert cancels._early == {}
