"""The shipped predictor with its model, which also reports how long one owner's work waited.

Waits are counted in ticks of the model thread, so that other load of the machine plays no part.
"""

import time
from collections import deque
from collections.abc import Generator
from typing import Any

import predict
from bench.attack.long_ticks import watch_if_asked
from cog_adapt.runner.scheduling.fair_queue import FairQueue
from cog_adapt.runner.scheduling.scheduler import Scheduler
from cog_adapt.runner.scheduling.tickets import Job, SharedWork, Ticket

WATCHED = "watched"


class Ticks:
    """Follows the ticks of a model thread.

    Args:
        scheduler: owns the thread.

    Attributes:
        longest: seconds of the longest tick.
        steps: number of ticks of long work (adaptations).
        seen: number of the watched owner's pieces of work that were done.
        waited: the most such ticks that began while one such piece waited; a tick that already ran
            does not count.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self.longest, self.steps, self.seen, self.waited = 0.0, 0, 0, 0
        self._scheduler, self._tick = scheduler, scheduler._tick
        self._submit, self._charge = scheduler.submit_short, scheduler._virtual.charge
        self._submitted: deque[float] = deque()
        self._begun: deque[float] = deque(maxlen=100)
        vars(scheduler)["_tick"] = self.tick
        vars(scheduler)["submit_short"] = self.submit
        vars(scheduler._virtual)["charge"] = self.charge

    def tick(self, queue: FairQueue[Job]) -> int:
        """Note when a tick of long work begins."""
        if queue is self._scheduler._long:
            self.steps += 1
            self._begun.append(time.monotonic())
        return self._tick(queue)

    def submit(
        self, work: Generator[Any, None, Any], owner: str = "", part: SharedWork | None = None
    ) -> Ticket[Any]:
        """Note when a piece of the watched owner's work began to wait."""
        if owner == WATCHED:
            self._submitted.append(time.monotonic())
        return self._submit(work, owner, part)

    def charge(self, owner: str, seconds: float) -> None:
        """Note the end of a tick, for which this is called once for each share."""
        self.longest = max(self.longest, self._scheduler.beat()[0])
        if owner == WATCHED and self._submitted:
            since = self._submitted.popleft()
            self.seen += 1
            self.waited = max(self.waited, sum(since < each for each in self._begun))
        self._charge(owner, seconds)

    def gauges(self) -> dict[str, float]:
        """Return all numbers."""
        return {
            "longest_tick_seconds": self.longest,
            "steps_taken": self.steps,
            "watched_pieces": self.seen,
            "most_steps_waited": self.waited,
        }


class Timed(predict.Predictor):
    """The shipped predictor, which follows the ticks of the model thread."""

    def setup(self, weights: str | None = None) -> None:
        """Load the model, and follow its ticks from then on."""
        super().setup(weights)
        self.ticks = Ticks(self.runner.scheduler)
        watch_if_asked(self.runner.scheduler)

    def gauges(self) -> dict[str, float]:
        """Return the numbers of ticks, and the runner's own gauges."""
        return {**self.runner.gauges(), **self.ticks.gauges()}
