"""Memory of work under way is counted in all and by owner, and work is counted too."""

from dataclasses import dataclass
from typing import Any

import pytest

from cog_adapt.runner.adaptation.memory_estimate import Needed
from cog_adapt.runner.scheduling.held_memory import HeldMemory

NEEDED = Needed(2**21, 0, 0, 0, 1)


@dataclass(frozen=True)
class Work:
    bytes: int
    owner: str = ""


def held(*works: Work, limit: int = 100, **rest: Any) -> HeldMemory[Work]:
    made: HeldMemory[Work] = HeldMemory(lambda: limit, **rest)
    made.ask_limit()
    for work in works:
        made.add(work)
    return made


def test_what_is_held_is_counted_until_it_is_freed():
    work = Work(60)
    memory = held(work, Work(30))
    assert (memory.bytes, len(memory)) == (90, 2)
    memory.free(work)
    memory.free(work)
    assert (memory.bytes, len(memory)) == (30, 1)


def test_the_limit_is_asked_only_while_nothing_is_held():
    limits = iter([100, 10])
    memory: HeldMemory[Work] = HeldMemory(lambda: next(limits))
    work = Work(50)
    memory.ask_limit()
    memory.add(work)
    memory.ask_limit()
    assert memory.most_of("") == 100
    memory.free(work)
    memory.ask_limit()
    assert memory.most_of("") == 10


@pytest.mark.parametrize(("size", "expected"), [(40, True), (41, False)])
def test_what_fits_has_room_beside_the_others(size: int, expected: bool):
    assert held(Work(60)).fits(Work(size)) is expected


def test_one_owner_has_its_share_and_who_has_no_owner_has_all():
    memory = held(Work(40, "a"), owner_share=0.5)
    assert (memory.most_of("a"), memory.most_of("")) == (50, 100)
    assert memory.is_share_over(Work(11, "a"))
    assert not memory.fits(Work(11, "a"))
    assert memory.fits(Work(10, "a"))
    assert memory.fits(Work(50, "b"))
    assert memory.fits(Work(60))


def test_no_more_than_so_many_are_under_way():
    memory = held(Work(1), Work(2), most_at_once=2, setting="AT_ONCE")
    assert not memory.fits(Work(3))
    assert "2 other adaptations under way" in memory.words_of_wait(Work(3), NEEDED)
    assert "AT_ONCE" in memory.words_of_wait(Work(3), NEEDED)
    memory.free(Work(1))
    assert memory.fits(Work(3))


def test_one_owner_leaves_a_quarter_of_the_turns_to_the_others():
    memory = held(*(Work(n, "a") for n in range(6)), most_at_once=8, setting="AT_ONCE")
    assert memory.is_share_over(Work(9, "a"))
    assert memory.words_of_wait(Work(9, "a"), NEEDED) == (
        "its turn: 6 other adaptations of this owner under way, which is the limit (AT_ONCE)"
    )
    assert memory.fits(Work(9, "b"))
    memory.free(Work(0, "a"))
    assert memory.fits(Work(9, "a"))


@pytest.mark.parametrize(("owner", "most"), [("", 8), ("a", 4)])
def test_who_has_no_owner_may_have_every_turn_and_of_few_one_owner_too(owner: str, most: int):
    memory = held(*(Work(n, owner) for n in range(most - 1)), most_at_once=most)
    assert memory.fits(Work(9, owner))


def test_who_waits_for_memory_is_told_how_much_is_taken():
    words = held(Work(2**20), limit=2**21).words_of_wait(Work(2**21), NEEDED)
    taken = "1 MB of 2 MB are taken, with 1 other adaptation under way"
    assert words == f"memory: it needs about {NEEDED}; {taken}"


def test_who_would_fit_is_told_that_another_is_before_it():
    words = held(Work(60)).words_of_wait(Work(5), NEEDED)
    assert words == "its turn: an earlier one waits for more memory"
