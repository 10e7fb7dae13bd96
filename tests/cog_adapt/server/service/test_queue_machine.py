"""What waits and runs, against plain lists, whatever is accepted, cancelled, ended and dies."""

import asyncio
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cog_adapt.server.errors import IdInUse, QueueFull
from cog_adapt.server.protocol import OWNER_KEY, Cancel, Finished
from tests.cog_adapt.server.service.harness import Harness

MOST_WAITING = 4
OWNERS = ("", "ann", "bob")
MOST_CRASHES = 2  # with the second one, what ran both times is quarantined

owners = st.sampled_from(OWNERS)
names = st.sampled_from("abcdef")
places = st.integers(0, 20)


@dataclass(eq=False)
class Expected:
    """One prediction, as it should be."""

    key: tuple[str, str]  # owner and name
    prediction: Any
    retries: int
    crashes: int = 0
    outside_kills: int = 0
    is_cancelled: bool = False

    @property
    def is_alone(self):
        return self.crashes or self.outside_kills >= 2

    @property
    def owner(self):
        return self.key[0]

    @property
    def run_id(self):
        return self.prediction.run_id


class QueueOfOneWorker(RuleBasedStateMachine):
    """One process with some slots, and what waits for them."""

    def __init__(self):
        super().__init__()
        self.runner = asyncio.Runner()
        self.temporary = tempfile.TemporaryDirectory()
        self.waiting: list[Expected] = []
        self.running: list[Expected] = []
        self.starts: list[Expected] = []
        self.latest_start: Counter[str] = Counter()
        self.ended: list[tuple[Expected, str]] = []
        self.is_up = True
        self.slots = 0

    @initialize(slots=st.sampled_from([1, 2, 8]))
    def open(self, slots):
        async def opened():
            folder = Path(self.temporary.name)
            harness = Harness(folder, max_queue=MOST_WAITING, max_crashes=10**6)
            await harness.records.register()
            return harness

        self.harness = self.runner.run(opened())
        self.lead = self.harness.dispatcher.lead
        self.lead.slots = self.slots = slots

    @property
    def most_of_owner(self):
        """A quarter of eight slots is left to others."""
        return 6 if self.slots == 8 else self.slots

    def running_of(self, owner):
        return sum(each.owner == owner for each in self.running)

    def has_room(self, owner):
        free = self.slots - len(self.running)
        if owner:
            free = min(free, self.most_of_owner - self.running_of(owner))
        return len(self.waiting) - max(0, free) < MOST_WAITING

    def advance(self):
        """Start what is next: of the owner with the fewest that run, then who waited longest."""
        while self.is_up and self.waiting and len(self.running) < self.slots:
            may = [
                each
                for each in self.waiting
                if not each.owner or self.running_of(each.owner) < self.most_of_owner
            ]
            if not may:
                return
            chosen = min(
                may, key=lambda each: (self.running_of(each.owner), self.latest_start[each.owner])
            )
            if self.running and any(each.is_alone for each in (chosen, *self.running)):
                return  # it runs alone
            self.waiting.remove(chosen)
            self.starts.append(chosen)
            self.latest_start[chosen.owner] = len(self.starts)
            if not self.waiting:
                self.latest_start.clear()
            self.running.append(chosen)

    def find(self, key):
        in_flight = [*self.waiting, *self.running]
        return next((each for each in in_flight if each.key == key), None)

    def end(self, expected, status):
        self.ended.append((expected, status))
        assert expected.prediction.status == status

    async def submit(self, key, retries):
        owner, name = key
        context = {OWNER_KEY: owner} if owner else {}
        return await self.harness.submit(name, durable=False, context=context, retries=retries)

    @rule(owner=owners, name=names, retries=st.integers(0, 3))
    def accept(self, owner, name, retries):
        key = owner, name
        refusal = IdInUse if self.find(key) else None if self.has_room(owner) else QueueFull
        if refusal is not None:
            with pytest.raises(refusal):
                self.runner.run(self.submit(key, retries))
            return
        prediction = self.runner.run(self.submit(key, retries))
        self.waiting.append(Expected(key, prediction, retries))
        self.advance()

    @rule(owner=owners, name=names)
    def cancel(self, owner, name):
        """What waits is over at once; what runs is asked to end, once."""
        expected = self.find((owner, name))
        said = len(self.harness.model.said)
        assert self.call(self.harness.dispatcher.cancel, name, owner) is (expected is not None)
        if expected in self.waiting:
            self.waiting.remove(expected)
            self.end(expected, "canceled")
            self.advance()
        elif expected is not None:
            asked = [] if expected.is_cancelled else [Cancel(expected.run_id)]
            assert self.harness.model.said[said:] == asked
            expected.is_cancelled = True

    def call(self, function, *args):
        async def called():
            return function(*args)

        return self.runner.run(called())

    @precondition(lambda self: self.running)
    @rule(place=places, status=st.sampled_from(["succeeded", "failed"]))
    def finish(self, place, status):
        expected = self.running.pop(place % len(self.running))
        status = "canceled" if expected.is_cancelled else status
        self.call(self.lead.on_report, Finished(expected.run_id, status))
        self.end(expected, status)
        self.advance()

    @precondition(lambda self: self.is_up)
    @rule(is_from_outside=st.booleans())
    def die(self, is_from_outside):
        """What may run again is the first to, in its order; after a crash each alone."""
        self.is_up = False
        self.call(partial(self.harness.crash, is_from_outside=is_from_outside))
        again = []
        for each in self.running:
            each.crashes += not is_from_outside
            each.outside_kills += is_from_outside
            if each.is_cancelled:
                self.end(each, "canceled")
            elif each.crashes < MOST_CRASHES and each.retries:
                each.retries -= 1
                again.append(each)
            else:
                self.end(each, "failed")
        self.running, self.waiting = [], again + self.waiting

    @precondition(lambda self: not self.is_up)
    @rule()
    def set_up_again(self):
        self.runner.run(self.harness.set_up_again())
        self.call(self.lead.forgive_crashes)  # so that its next pause is the shortest
        self.is_up = True
        self.advance()

    @precondition(lambda self: self.slots)
    @invariant()
    def the_same_waits_and_runs(self):
        assert list(self.lead.running) == [each.run_id for each in self.running]
        waiting = self.harness.dispatcher.waiting
        assert [each.run_id for each in waiting] == [each.run_id for each in self.waiting]
        assert self.harness.model.runs == [each.run_id for each in self.starts]

    @precondition(lambda self: self.slots)
    @invariant()
    def each_that_was_accepted_is_in_flight_or_has_ended_once(self):
        ended = [id(expected) for expected, _ in self.ended]
        assert len(ended) == len(set(ended))
        for expected, status in self.ended:
            assert (expected.prediction.status, expected.prediction.done.done()) == (status, True)
        for each in self.running:
            assert each.prediction.status == "processing"
        for each in self.waiting:
            assert each.prediction.status == "starting"

    @precondition(lambda self: self.slots)
    @invariant()
    def what_was_in_a_crash_runs_alone(self):
        if any(each.is_alone for each in self.running):
            assert len(self.lead.running) == 1

    @precondition(lambda self: self.slots)
    @invariant()
    def what_waits_is_what_its_owners_are_charged_for(self):
        sizes = Counter({owner: 0 for owner in OWNERS})
        for each in (*self.waiting, *self.running):
            sizes[each.owner] += each.prediction.request.size
        queue = self.harness.budgets.queue
        assert {owner: queue.used_by(owner) for owner in OWNERS if owner} == {
            owner: sizes[owner] for owner in OWNERS if owner
        }
        assert queue.used == sizes.total()

    def teardown(self):
        async def close():
            await self.harness.flush()
            await self.harness.webhooks.close()
            await self.harness.records.close()

        if self.slots:
            self.runner.run(close())
        self.runner.close()
        self.temporary.cleanup()


TestQueue = QueueOfOneWorker.TestCase
TestQueue.settings = settings(
    max_examples=20,
    stateful_step_count=35,
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
