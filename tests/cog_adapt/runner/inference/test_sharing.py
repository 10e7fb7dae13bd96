"""Sharing of forwards pauses after a failure, by counts, and comes back."""

from cog_adapt.runner.inference.sharing import FIRST_PAUSE, GROWS_AFTER, LONGEST_PAUSE, Sharing


def forwards_until_shared(sharing, head="head"):
    count = 0
    while not sharing.may_share(head):
        sharing.ran_alone(head)
        count += 1
    return count


def test_a_failure_pauses_its_own_head_for_a_stated_number_of_forwards():
    sharing = Sharing()
    assert sharing.failed("head") == FIRST_PAUSE
    assert sharing.may_share("other")
    assert forwards_until_shared(sharing) == FIRST_PAUSE


def test_each_failure_doubles_the_pause_up_to_the_longest():
    sharing = Sharing()
    pauses = []
    for _ in range(13):
        sharing.failed("head")
        pauses.append(forwards_until_shared(sharing))
    assert pauses == [min(FIRST_PAUSE * 2**n, LONGEST_PAUSE) for n in range(13)]


def test_the_pause_is_short_again_after_as_many_good_forwards_as_it_would_last():
    sharing = Sharing()
    sharing.failed("head")
    sharing.failed("head")
    for _ in range(4 * FIRST_PAUSE - 1):
        sharing.went_well("head")
    assert sharing.failed("head") == 4 * FIRST_PAUSE
    for _ in range(8 * FIRST_PAUSE):
        sharing.went_well("head")
    assert sharing.failed("head") == FIRST_PAUSE


def test_memory_that_runs_out_halves_the_rows_and_pauses_nothing():
    sharing = Sharing()
    assert sharing.most_rows("head", 32) == 32
    assert sharing.ran_out_of_memory("head", 32) == 16
    assert sharing.ran_out_of_memory("head", 9) == 4
    assert sharing.may_share("head")
    assert sharing.most_rows("head", 32) == 4
    assert sharing.most_rows("other", 32) == 32


def test_two_rows_that_do_not_fit_pause():
    sharing = Sharing()
    assert sharing.ran_out_of_memory("head", 2) == 2
    assert forwards_until_shared(sharing) == FIRST_PAUSE


def test_rows_double_again_after_many_good_forwards():
    sharing = Sharing()
    sharing.ran_out_of_memory("head", 16)
    for _ in range(GROWS_AFTER - 1):
        sharing.went_well("head")
    assert sharing.most_rows("head", 32) == 8
    sharing.went_well("head")
    assert sharing.most_rows("head", 32) == 16


def test_what_cannot_share_never_does():
    sharing = Sharing()
    sharing.never("head")
    for _ in range(2 * FIRST_PAUSE):
        sharing.ran_alone("head")
        sharing.went_well("head")
    assert not sharing.may_share("head")
