"""What a run waits for while another thread does it ends with its caller, and never strands it."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from cog_adapt.runner.adaptation.memory_estimate import Needed
from cog_adapt.runner.scheduling.admission import Admission
from cog_adapt.runner.scheduling.elsewhere import Elsewhere
from cog_adapt.runner.scheduling.held_memory import HeldMemory
from cog_adapt.runner.scheduling.scheduler import Scheduler, once
from tests.cog_adapt.waiting import wait_until

SECONDS = 30.0
STEPS = 1_000


class Decoding:
    """A run that holds memory and waits for another thread, whose first step a test lets go on."""

    def __init__(self) -> None:
        self.model, self.other = Scheduler(), Scheduler("other")
        held: HeldMemory[Any] = HeldMemory(lambda: 100, setting="BYTES")
        self.admission = Admission(self.model, held, {"other": self.other})
        self.begun, self.go, self.closed = (threading.Event() for _ in range(3))
        self.threads: list[str] = []

    def submit(self):
        return self.admission.submit(self._work(), "ann")

    def _work(self):
        try:
            yield Needed(60, 0, 0, 0, 1)
            wanted = Elsewhere(self._steps(), "other")
            yield wanted
            yield None
            return wanted.result()
        finally:
            self.closed.set()

    def _steps(self):
        self.begun.set()
        assert self.go.wait(SECONDS)
        for _ in range(STEPS):
            self.threads.append(threading.current_thread().name)
            yield None
        return "decoded"

    def held(self) -> tuple[float, ...]:
        for _ in range(3):
            self.model.submit_long(once(int)).wait()
        return tuple(self.admission.gauges().values())

    def close(self) -> None:
        self.go.set()
        self.other.close()
        self.model.close()


@pytest.fixture
def decoding() -> Iterator[Decoding]:
    made = Decoding()
    yield made
    made.close()


def test_it_is_done_on_the_other_thread_and_the_run_goes_on(decoding):
    decoding.go.set()
    assert decoding.submit().wait() == "decoded"
    assert set(decoding.threads) == {"other"}
    assert decoding.held() == (0, 0)


def test_no_step_of_it_is_done_after_its_caller_has_left(decoding):
    ticket = decoding.submit()
    assert decoding.begun.wait(SECONDS)
    ticket.left = True
    decoding.go.set()
    assert decoding.closed.wait(SECONDS)
    assert len(decoding.threads) <= 1  # the one that was under way
    assert decoding.held() == (0, 0)


def test_one_whose_turn_never_came_goes_on_where_the_other_thread_ends(decoding):
    occupied, free = threading.Event(), threading.Event()

    def occupy():
        occupied.set()
        free.wait(SECONDS)

    blocking = decoding.other.submit_short(once(occupy))
    assert occupied.wait(SECONDS)
    ticket = decoding.submit()
    assert decoding.held() == (60, 0)  # it has its memory and waits for the other thread
    closing = threading.Thread(target=decoding.other.close)
    closing.start()
    decoding.go.set()
    free.set()
    closing.join(SECONDS)
    blocking.wait()
    wait_until(decoding.closed.is_set)
    assert ticket.wait() == "decoded"
    assert set(decoding.threads) == {"model"}  # what is left of it is done here
    assert decoding.held() == (0, 0)
