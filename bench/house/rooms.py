"""Counts the rooms, floors and arrows of the packages, at commits and in the tree as it is.

    python -m bench.house.rooms --at f7a21a1 --output docs/results/rooms.md

A room is a folder of a package, or a module directly in the package. An arrow leads from a room to
a room that it imports, at the top of a module or inside a function; several imports are one arrow.
The floor of a room is its longest path of arrows downwards: a room without imports is on floor 1.
"""

import argparse
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from graphlib import TopologicalSorter
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from bench.house.imports import Graph, graph_of
from bench.house.trees import Tree

ROOT = Path(__file__).parents[2]
_RUNNER = "cog_adapt.runner"
_APART = ("cog_adapt.command", "cog_adapt.lm")
RoomOf = Callable[[str], str | None]


class Count(NamedTuple):
    """The counts of one package of a tree."""

    rooms: int
    floors: int
    arrows: int
    lines: int


def rooms_in(package: str) -> RoomOf:
    """Return a function that names the room of a module of a package; None for other modules."""

    def room_of(module: str) -> str | None:
        inside = module.removeprefix(f"{package}.")
        return None if inside == module else inside.partition(".")[0]

    return room_of


def runner_and_above(module: str) -> str | None:
    """Name the room of a module of the runner; commands and language models are a room each."""
    apart = next((each for each in _APART if module == each or module.startswith(f"{each}.")), None)
    return apart or rooms_in(_RUNNER)(module)


PACKAGES: Mapping[str, RoomOf] = {
    "the runner": rooms_in(_RUNNER),
    "the runner, command and lm": runner_and_above,
    "the server": rooms_in("cog_adapt.server"),
    "gradient_check": rooms_in("gradient_check"),
}


def arrows_of(graph: Graph, room_of: RoomOf) -> dict[str, set[str]]:
    """Return the rooms that each room imports."""
    found: dict[str, set[str]] = {room: set() for name in graph if (room := room_of(name))}
    for name, imported in graph.items():
        room = room_of(name)
        if room is not None:
            found[room] |= {other for each in imported if (other := room_of(each))} - {room}
    return found


def floors_of(arrows: Mapping[str, set[str]]) -> dict[str, int]:
    """Return the floor of each room, from 1.

    Raises:
        graphlib.CycleError: rooms import one another in a circle.
    """
    floors: dict[str, int] = {}
    for room in TopologicalSorter(arrows).static_order():  # each after those that it imports
        floors[room] = 1 + max((floors[each] for each in arrows[room]), default=0)
    return floors


def count(tree: Tree) -> dict[str, Count]:
    """Count the rooms, floors and arrows of each package in a tree."""
    modules = [m for m in tree.modules if m.area not in ("tests", "bench", "examples")]
    graph = graph_of(modules)
    counts = {}
    for title, room_of in PACKAGES.items():
        arrows = arrows_of(graph, room_of)
        lines = sum(module.lines for module in modules if room_of(module.name))
        floors = max(floors_of(arrows).values(), default=0)
        if arrows:
            counts[title] = Count(len(arrows), floors, sum(map(len, arrows.values())), lines)
    return counts


def tree_at(commit: str, folder: Path) -> Tree:
    """Read the tree of a commit, unpacked into a folder."""
    command = ["git", "archive", "--format=tar", commit]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as file:
        file.extractall(folder, filter="data")
    return Tree.read(folder)


def document(counts: Mapping[str, Mapping[str, Count]]) -> Iterator[str]:
    """Yield the lines of a table: a row for each package of each tree."""
    yield "# Rooms, floors and arrows"
    yield ""
    yield "Written by `python -m bench.house.rooms`, whose docstring defines room, floor and arrow."
    yield ""
    yield "| | tree | rooms | floors | arrows | lines |"
    yield "|---|---|---|---|---|---|"
    for title in PACKAGES:
        rows = ((tree, found[title]) for tree, found in counts.items() if title in found)
        for tree, row in rows:
            yield f"| {title} | {tree} | " + " | ".join(map(str, row)) + " |"


def main() -> None:
    """Print the table, and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", action="append", default=[], metavar="COMMIT", help="beside this")
    parser.add_argument("--output", type=Path, metavar="FILE")
    chosen = parser.parse_args()
    counts = {}
    for commit in chosen.at:
        with tempfile.TemporaryDirectory() as folder:
            counts[commit] = count(tree_at(commit, Path(folder)))
    counts["this one"] = count(Tree.read(ROOT))
    text = "\n".join([*document(counts), ""])
    print(text)
    if chosen.output:
        chosen.output.write_text(text)


if __name__ == "__main__":
    main()
