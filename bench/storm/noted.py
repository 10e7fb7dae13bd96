"""Reads the log that the models of a storm keep (`bench.storm.step_log`)."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Kill:
    """What was killed or stopped, and when.

    Attributes:
        name: of its kind.
        processes: that ended by it, or stood still.
        at: the time just before, in seconds since the boot.
        seconds: until all servers were ready again.
        is_final: whether the processes ended; else they went on later.
    """

    name: str
    processes: frozenset[int]
    at: float
    seconds: float
    is_final: bool = True

    @property
    def over_at(self) -> float:
        """The time when all servers were ready again, in seconds since the boot."""
        return self.at + self.seconds


@dataclass
class Run:
    """One run of a request's code in one process.

    Attributes:
        process: that ran it.
        began: in seconds since the boot.
        ended: when the code returned or raised; infinite if a kill came first.
    """

    process: int
    began: float
    ended: float = float("inf")

    def was_hit_by(self, kill: Kill) -> bool:
        """Return whether a kill ended or stopped its process meanwhile."""
        return self.process in kill.processes and self.began <= kill.at <= self.ended

    def may_have_lost_its_end(self, kill: Kill) -> bool:
        """Return whether its process was killed later, perhaps before its end was told."""
        return self.process in kill.processes and self.began <= kill.at


@dataclass(frozen=True)
class Learning:
    """One adaptation or training.

    Attributes:
        ticket: in its examples.
        process: that took the steps.
        first: the time of the first step, in seconds since the boot.
        last: the time of the last step.
    """

    ticket: str
    process: int
    first: float
    last: float


@dataclass
class Noted:
    """What the models did.

    Attributes:
        runs: of each request by its `run_id`, in their order.
        learnings: in the order of their first steps.
    """

    runs: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    learnings: Sequence[Learning] = ()

    @classmethod
    def read(cls, log: Path) -> "Noted":
        """Read a log."""
        runs: dict[str, list[Run]] = defaultdict(list)
        steps: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for line in log.read_text().splitlines():
            what, name, process, at, *learning = line.split()
            if what == "begin":
                runs[name].append(Run(int(process), float(at)))
            elif what == "end":
                _running(runs[name], int(process)).ended = float(at)
            else:
                steps[name, process, *learning].append(float(at))
        learnings = [
            Learning(ticket, int(process), min(times), max(times))
            for (ticket, process, *_), times in steps.items()
        ]
        return cls(runs, sorted(learnings, key=lambda each: each.first))

    def busy_processes(self) -> set[int]:
        """Return the processes in which a run has begun and not ended, also those that are gone."""
        runs = (run for some in self.runs.values() for run in some)
        return {run.process for run in runs if run.ended == float("inf")}

    def count_under_way(self, kill: Kill, names: Sequence[str]) -> int:
        """Count those of the named requests that a kill hit."""
        return sum(any(run.was_hit_by(kill) for run in self.runs.get(name, ())) for name in names)


def _running(runs: Sequence[Run], process: int) -> Run:
    return next(run for run in reversed(runs) if run.process == process)
