"""Owners share by virtual time: who has paid least comes next."""

import pytest

from cog_adapt.runner.scheduling.fair_queue import FairQueue, VirtualTime


@pytest.fixture
def time():
    return VirtualTime()


@pytest.fixture
def queue(time):
    return FairQueue(time)


def test_items_of_one_owner_come_in_order(queue):
    for number in range(5):
        queue.append("ann", number)
    assert [queue.pop() for _ in range(5)] == [*range(5)]
    assert len(queue) == 0


def test_a_hundred_of_one_owner_do_not_starve_another(queue, time):
    for number in range(100):
        queue.append("ann", ("ann", number))
    taken = []
    for turn in range(20):
        taken.append(queue.pop()[0])
        time.charge(taken[-1], 1.0)
        if turn == 9:
            for number in range(3):
                queue.append("bob", ("bob", number))
    assert taken[:10] == ["ann"] * 10
    assert taken[10:16].count("bob") == 3


def test_an_owner_of_dear_items_gets_fewer_of_them(queue, time):
    for number in range(100):
        queue.append("dear", ("dear", number))
        queue.append("cheap", ("cheap", number))
    taken = []
    for _ in range(44):
        taken.append(queue.pop()[0])
        time.charge(taken[-1], 10.0 if taken[-1] == "dear" else 1.0)
    assert taken.count("dear") == 4


def test_who_comes_back_has_saved_nothing(queue, time):
    for number in range(100):
        queue.append("ann", ("ann", number))
    for _ in range(50):
        queue.pop()
        time.charge("ann", 1.0)
    for number in range(50):
        queue.append("bob", ("bob", number))
    taken = []
    for _ in range(20):
        taken.append(queue.pop()[0])
        time.charge(taken[-1], 1.0)
    assert 9 <= taken.count("bob") <= 11


def test_two_queues_share_what_was_paid(time):
    short: FairQueue[str] = FairQueue(time)
    long: FairQueue[str] = FairQueue(time)
    for owner in ("ann", "bob"):
        long.append(owner, owner)
        short.append(owner, owner)
    assert long.pop() == "ann"
    time.charge("ann", 5.0)
    assert short.pop() == "bob"


def test_owners_who_paid_the_same_take_turns(queue):
    for number in range(3):
        for owner in ("ann", "bob"):
            queue.append(owner, f"{owner}{number}")
    assert [queue.pop() for _ in range(6)] == ["ann0", "bob0", "ann1", "bob1", "ann2", "bob2"]


def test_all_items_are_listed_one_of_each_owner_in_turn(queue, time):
    for item in ("a1", "a2", "a3", "b1"):
        queue.append(item[0], item)
    time.charge("a", 1.0)
    assert [*queue] == ["b1", "a1", "a2", "a3"]
    queue.remove("a", "a2")
    queue.remove("b", "b1")
    assert [*queue] == ["a1", "a3"]
    queue.clear()
    assert (len(queue), [*queue]) == (0, [])


def test_accounts_of_owners_who_are_gone_are_dropped(queue, time):
    for number in range(5_000):
        queue.append(str(number), number)
        queue.pop()
        time.charge(str(number), 0.5)
        time.now += 1.0
    assert sum(time.paid(str(number)) > 0 for number in range(5_000)) <= 1_001
