"""Adaptations that do not fit wait in their order, or are refused; nothing is left of them."""

import threading
from queue import SimpleQueue
from typing import Any

import pytest

from cog_adapt.runner.adaptation.memory_estimate import Needed, Waiting
from cog_adapt.runner.errors import InputError, UnavailableError
from cog_adapt.runner.scheduling.admission import Admission
from cog_adapt.runner.scheduling.held_memory import HeldMemory
from cog_adapt.runner.scheduling.scheduler import Scheduler, once

SECONDS = 30.0


class Adaptations:
    """Work of stated bytes that runs until a test lets it end."""

    def __init__(self, limit: int = 100, most_at_once: int | None = None) -> None:
        self.limit = limit
        self.asked = lambda: self.limit
        self.scheduler = Scheduler()
        held: HeldMemory[Any] = HeldMemory(
            lambda: self.asked(), most_at_once=most_at_once, setting="AT_ONCE"
        )
        self.admission = Admission(self.scheduler, held)
        self.began: SimpleQueue[str] = SimpleQueue()
        self.closed: SimpleQueue[str] = SimpleQueue()
        self.gates: dict[str, threading.Event] = {}

    def submit(self, name: str, size: int, error: Exception | None = None, owner: str = ""):
        self.gates[name] = threading.Event()
        return self.admission.submit(self._work(name, size, error), owner)

    def _work(self, name, size, error):
        try:
            yield Needed(size, 0, 0, 0, 1)
            self.began.put(name)
            while not self.gates[name].is_set():
                yield None
            if error:
                raise error
            return name
        finally:
            self.closed.put(name)

    def next_began(self) -> str:
        return self.began.get(timeout=SECONDS)

    def next_closed(self) -> str:
        return self.closed.get(timeout=SECONDS)

    def end_next(self) -> str:
        """End the one that began next, and return its name."""
        name = self.next_began()
        self.gates[name].set()
        return name

    def settle(self) -> None:
        """Wait until all that was submitted before has had a tick."""
        for _ in range(3):
            self.scheduler.submit_long(once(int)).wait()

    def left(self) -> tuple[float, ...]:
        self.settle()
        return tuple(self.admission.gauges().values())


@pytest.fixture
def adaptations():
    made = Adaptations()
    yield made
    made.scheduler.close()


def waiting(ticket) -> Waiting:
    """The next progress of a ticket that has to wait."""
    while True:
        message = ticket.outbox.get(timeout=SECONDS)
        if message is not None:
            assert isinstance(message, Waiting)
            return message


def test_what_fits_goes_on_and_gives_its_memory_back(adaptations):
    one, two = adaptations.submit("a", 60), adaptations.submit("b", 40)
    assert {adaptations.next_began(), adaptations.next_began()} == {"a", "b"}
    assert adaptations.left() == (100, 0)
    for gate in adaptations.gates.values():
        gate.set()
    assert (one.wait(), two.wait()) == ("a", "b")
    assert adaptations.left() == (0, 0)


def test_what_could_not_fit_alone_is_refused_in_words(adaptations):
    adaptations.limit = 2**30
    with pytest.raises(
        InputError, match=r"need about 3 GB .* at most 1 GB .*ADAPTATION_MEMORY_BYTES.*batch_size"
    ):
        adaptations.submit("a", 3 * 2**30).wait()
    assert adaptations.next_closed() == "a"
    assert adaptations.left() == (0, 0)


def test_two_that_do_not_fit_together_run_in_turn_and_a_small_one_after_them(adaptations, caplog):
    caplog.set_level("INFO")
    tickets = [adaptations.submit(name, size) for name, size in (("a", 70), ("b", 90), ("c", 20))]
    assert adaptations.next_began() == "a"
    assert "needs about" in waiting(tickets[1]).words
    assert "an earlier one waits for more memory" in waiting(tickets[2]).words
    assert caplog.text.count("an adaptation waits for") == 2
    assert adaptations.left() == (70, 2)
    adaptations.gates["a"].set()
    assert adaptations.next_began() == "b"  # first come, first served: c would fit beside a
    assert adaptations.left() == (90, 1)
    adaptations.gates["b"].set()
    assert adaptations.next_began() == "c"
    adaptations.gates["c"].set()
    assert [ticket.wait() for ticket in tickets] == ["a", "b", "c"]
    assert adaptations.left() == (0, 0)


def test_what_are_too_many_at_once_wait_for_their_turn():
    adaptations = Adaptations(most_at_once=2)
    tickets = [adaptations.submit(name, 10) for name in "abc"]
    assert {adaptations.next_began(), adaptations.next_began()} == {"a", "b"}
    assert waiting(tickets[2]).words == (
        "waits for its turn: 2 other adaptations under way, which is the limit (AT_ONCE)"
    )
    assert adaptations.left() == (20, 1)
    adaptations.gates["a"].set()
    assert adaptations.next_began() == "c"
    for gate in adaptations.gates.values():
        gate.set()
    assert [ticket.wait() for ticket in tickets] == ["a", "b", "c"]
    assert adaptations.left() == (0, 0)
    adaptations.scheduler.close()


def test_an_owner_with_many_leaves_a_turn_to_one_who_comes_later():
    adaptations = Adaptations(most_at_once=8)
    tickets = [adaptations.submit(name, 10, owner="ann") for name in "abcdefg"]
    assert {adaptations.next_began() for _ in range(6)} == {*"abcdef"}
    waiting(tickets[6])
    late = adaptations.submit("late", 10, owner="bob")
    assert adaptations.next_began() == "late"
    for gate in adaptations.gates.values():
        gate.set()
    assert [ticket.wait() for ticket in (*tickets, late)] == [*"abcdefg", "late"]
    assert adaptations.left() == (0, 0)
    adaptations.scheduler.close()


def test_to_wait_costs_no_tick(adaptations):
    first, second = adaptations.submit("a", 70), adaptations.submit("b", 70)
    waiting(second)
    adaptations.settle()
    assert adaptations.scheduler.submit_long(once(len, adaptations.scheduler)).wait() == 1
    for gate in adaptations.gates.values():
        gate.set()
    assert (first.wait(), second.wait()) == ("a", "b")


@pytest.mark.parametrize("how", ["left", "dropped"])
def test_a_caller_who_goes_while_it_waits_leaves_nothing_at_once(adaptations, how):
    first, second, third = (adaptations.submit(name, 70) for name in "abc")
    waiting(second)
    waiting(third)
    if how == "left":
        second.left = True
    del second
    assert adaptations.next_closed() == "b"  # while the first still runs
    assert adaptations.left() == (70, 1)
    adaptations.gates["a"].set()
    adaptations.gates["c"].set()
    assert (first.wait(), third.wait()) == ("a", "c")
    assert [adaptations.next_began(), adaptations.next_began()] == ["a", "c"]
    assert adaptations.left() == (0, 0)


def test_a_failure_gives_the_memory_back(adaptations):
    first = adaptations.submit("a", 70, RuntimeError("a step failed"))
    second = adaptations.submit("b", 70)
    waiting(second)
    for gate in adaptations.gates.values():
        gate.set()
    with pytest.raises(RuntimeError, match="a step failed"):
        first.wait()
    assert second.wait() == "b"
    assert adaptations.left() == (0, 0)


def test_a_caller_who_goes_while_it_runs_gives_the_memory_back(adaptations):
    first, second = adaptations.submit("a", 70), adaptations.submit("b", 70)
    waiting(second)
    first.left = True
    adaptations.gates["b"].set()
    assert second.wait() == "b"
    assert adaptations.left() == (0, 0)


def test_a_caller_who_goes_when_its_turn_comes_gives_the_memory_back(adaptations):
    first, second, third = (adaptations.submit(name, 70) for name in "abc")
    waiting(second)
    waiting(third)

    def asked():
        second.left = True
        return 100

    adaptations.asked = asked  # as the second's turn comes
    adaptations.gates["a"].set()
    adaptations.gates["c"].set()
    assert (first.wait(), third.wait()) == ("a", "c")
    assert adaptations.left() == (0, 0)


def test_one_that_waited_is_refused_where_the_memory_has_become_less(adaptations):
    first, second = adaptations.submit("a", 70), adaptations.submit("b", 70)
    waiting(second)
    adaptations.limit = 60
    adaptations.gates["a"].set()
    assert first.wait() == "a"
    with pytest.raises(InputError, match="would need"):
        second.wait()
    assert adaptations.left() == (0, 0)


def test_those_who_wait_are_told_that_the_runner_was_closed(adaptations):
    tickets = [adaptations.submit(name, 70) for name in "abc"]
    waiting(tickets[2])
    adaptations.scheduler.close()
    for ticket in tickets:
        with pytest.raises(UnavailableError):
            ticket.wait()


def test_without_owners_they_go_on_in_the_order_in_which_they_came(adaptations):
    sizes = [60, 90, 20, 70, 100, 50, 60]
    tickets = [adaptations.submit(str(number), size) for number, size in enumerate(sizes)]
    adaptations.settle()
    assert [adaptations.end_next() for _ in sizes] == [ticket.wait() for ticket in tickets]


def test_one_owners_hundred_do_not_hold_up_anothers_one(adaptations):
    hundred = [adaptations.submit(f"ann {n}", 60, owner="ann") for n in range(100)]
    assert adaptations.next_began() == "ann 0"
    waiting(hundred[-1])
    one = [adaptations.submit(f"bob {size}", size, owner="bob") for size in (30, 50)]
    assert adaptations.next_began() == "bob 30"  # at once: it fits beside ann's
    waiting(one[1])
    for gate in adaptations.gates.values():
        gate.set()
    assert {adaptations.next_began(), adaptations.next_began()} == {"bob 50", "ann 1"}
    assert [adaptations.next_began() for _ in range(98)] == [f"ann {n}" for n in range(2, 100)]
    assert [ticket.wait() for ticket in one] == ["bob 30", "bob 50"]


def test_owners_get_as_many_bytes_as_each_other(adaptations):
    tickets = [adaptations.submit("first", 100, owner="carl")]
    assert adaptations.next_began() == "first"
    tickets += [adaptations.submit(f"ann {n}", 100, owner="ann") for n in range(8)]
    tickets += [adaptations.submit(f"bob {n}", 10, owner="bob") for n in range(80)]
    waiting(tickets[-1])
    adaptations.gates["first"].set()
    names = [adaptations.end_next() for _ in range(44)]
    assert sum(name.startswith("ann") for name in names) == 4


def test_small_ones_of_another_owner_do_not_overtake_a_large_one_for_ever(adaptations):
    small = [adaptations.submit(f"ann {n}", 10, owner="ann") for n in range(50)]
    for _ in range(10):
        adaptations.next_began()
    waiting(small[-1])
    large = adaptations.submit("bob", 100, owner="bob")
    waiting(large)
    for gate in adaptations.gates.values():
        gate.set()
    began = [adaptations.next_began() for _ in range(41)]
    assert began[0] == "bob"
    assert [ticket.wait() for ticket in small] == [f"ann {n}" for n in range(50)]


@pytest.mark.parametrize("paid", [10, 100])
def test_new_owners_do_not_overtake_a_large_one_for_ever(adaptations, paid):
    adaptations.submit("new 0", 40, owner="new 0")
    keep = [adaptations.submit(f"bob {n}", size, owner="bob") for n, size in enumerate((paid, 90))]
    others = [adaptations.submit(f"new {n}", 40, owner=f"new {n}") for n in (1, 2)]
    adaptations.settle()
    began: list[str] = []
    while "bob 1" not in began and len(began) < 100:
        others.append(adaptations.submit(f"new {len(others)}", 40, owner=f"new {len(others)}"))
        adaptations.settle()
        began.append(adaptations.end_next())
    assert len(began) < 30
    for gate in adaptations.gates.values():
        gate.set()
    assert [ticket.wait() for ticket in keep] == ["bob 0", "bob 1"]
    for ticket in others:
        ticket.wait()


def test_who_drops_what_waits_has_paid_nothing(adaptations):
    first = adaptations.submit("first", 60, owner="carl")
    assert adaptations.next_began() == "first"  # of two that come together either may be first
    dropped = [adaptations.submit(f"dropped {n}", 60, owner="ann") for n in range(20)]
    waiting(dropped[-1])
    for ticket in dropped:
        ticket.left = True
    adaptations.settle()
    tickets = []
    for owner in ("ann", "bob"):
        tickets.append(adaptations.submit(owner, 60, owner=owner))
        waiting(tickets[-1])
    adaptations.gates["first"].set()
    assert [adaptations.end_next() for _ in range(2)] == ["ann", "bob"]
    assert [ticket.wait() for ticket in (first, *tickets)] == ["first", "ann", "bob"]


def test_nothing_is_remembered_of_owners_once_all_is_over(adaptations):
    tickets = [adaptations.submit(str(n), 60, owner=f"owner {n % 2}") for n in range(20)]
    for _ in tickets:
        adaptations.end_next()
    for ticket in tickets:
        ticket.wait()
    assert adaptations.left() == (0, 0)
    tickets = [adaptations.submit("first", 60, owner="carl")]
    for owner in ("owner 0", "new"):  # who has paid before is not behind who has not
        tickets.append(adaptations.submit(owner, 60, owner=owner))
        waiting(tickets[-1])
    assert [adaptations.end_next() for _ in tickets] == ["first", "owner 0", "new"]
    for ticket in tickets:
        ticket.wait()
