"""Three journeys through a tree: of a POST, of a worker's report, and of an adaptation.

A stay is a visit to a module; a crossing is the step from one room into another. A room is a folder
of the server (of the runner for an adaptation) or a module that lies directly in it; each top
folder outside is one room. A return to a caller is no visit; a function that the caller then enters
is one.

As read: the walk of the request from the handler of POST, and of a report from the function that
distinguishes a worker's reports, through the server's modules. As run: each function that the event
loop of the front process enters for the first time between the arrival and the answer of one POST
/predictions, for a predictor that returns its text. Functions entered from the read of the worker's
socket belong to the report, all others to the POST. The adaptation is the runner's half of a
request: each function that any thread of a process without a server enters for the first time while
the shipped task learns four examples in five steps of LoRA, and answers. A figure is the median of
five runs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import PurePosixPath

from bench.house.definitions import Definition, Index
from bench.house.traced import Call, trace, trace_adaptations
from bench.house.trees import Tree
from bench.house.walk import Walk

STARTS = {
    "POST": (
        ("server/routes/runs.py", "Runs.create"),
        ("cog_adapt/server/api/predictions.py", "create"),
    ),
    "report": (
        ("server/lane.py", "Lane.hear"),
        ("cog_adapt/server/service/worker.py", "Worker.on_report"),
    ),
}
"""Where the walks begin, before and after; a bare name is looked for in every class of the file."""
_CARRIED = {"request", "body", "report"}
"""The parameters that are followed; where a start has none of them, its first."""
READERS = (
    "server/link.py",
    "cog_adapt/server/service/connection.py",
    "cog_adapt/server/service/worker_process.py",
)
"""Whose calls by the event loop are the arrival of reports."""


@dataclass(frozen=True)
class Journey:
    """The functions entered, in order, as (path, function)."""

    steps: Sequence[tuple[str, str]]
    root: PurePosixPath

    @property
    def stays(self) -> list[str]:
        """The modules visited, in order, each again after others."""
        return [path for path, _ in groupby(path for path, _ in self.steps)]

    @property
    def modules(self) -> int:
        """The number of modules."""
        return len(set(self.stays))

    @property
    def crossings(self) -> int:
        """The number of changes of the room."""
        rooms = [room_of(path, self.root) for path in self.stays]
        return sum(1 for _ in groupby(rooms)) - 1

    def described(self) -> list[str]:
        """Return a line for each stay: the room, if it changes, the module, the functions."""
        lines, before = [], ""
        for path, steps in groupby(self.steps, key=lambda step: step[0]):
            room = room_of(path, self.root)
            mark = "**" if room != before else ""
            names = ", ".join(dict.fromkeys(name for _, name in steps))
            lines.append(f"{mark}{path}{mark}: {names}")
            before = room
        return lines


def room_of(path: str, root: PurePosixPath) -> str:
    """Return the room of a module; `root` is the folder that has rooms."""
    whole = PurePosixPath(path)
    if whole.is_relative_to(root):
        return whole.relative_to(root).parts[0]
    return f"/{whole.parts[0]}"


def read_journey(tree: Tree, which: str) -> Journey | None:
    """Return a journey as one reads it, or None if the tree has none of its starts."""
    index = Index(tree.of("server"))
    start = next(filter(None, (_find(tree, index, *each) for each in STARTS[which])), None)
    if start is None:
        return None
    walk = Walk(index)
    walk.enter(start, _CARRIED & set(start.parameters) or set(start.parameters[:1]))
    steps = [(str(stop.module.path), stop.title) for stop in walk.stops]
    return Journey(steps, tree.server)


def _find(tree: Tree, index: Index, path: str, name: str) -> Definition | None:
    for module in tree.modules:
        if str(module.path) == path:
            return index.named(module, name)
    return None


def run_journeys(tree: Tree) -> dict[str, Journey | None]:
    """Run one POST and one adaptation five times, and return the median of each journey."""
    runs = trace(tree.root)
    kept: dict[str, Journey | None] = {}
    for which in STARTS:
        chosen = (
            [t for t in turns if (t[0].path in READERS) == (which == "report")] for turns in runs
        )
        kept[which] = _median([Journey(_steps(turns), tree.server) for turns in chosen])
    root = tree.server.parent / "runner"
    adaptations = trace_adaptations(tree.root)
    kept["adaptation"] = _median([Journey(_steps([calls]), root) for calls in adaptations])
    return kept


def _median(journeys: list[Journey]) -> Journey | None:
    found = sorted(journeys, key=lambda each: each.crossings)[len(journeys) // 2 :]
    return found[0] if found and found[0].steps else None


def _steps(turns: Iterable[Sequence[Call]]) -> list[tuple[str, str]]:
    """Return each function at its first entry; a comprehension belongs to its function."""
    calls = (call for turn in turns for call in turn)
    named = ((c.path, c.function) for c in calls if c.is_new and not c.function.endswith(">"))
    return list(dict.fromkeys(named))
