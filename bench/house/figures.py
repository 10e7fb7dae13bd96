"""The figures of the house: the structure of one tree or more, side by side.

    python -m bench.house.figures --tree NAME=DIR --tree now=. --output docs/results/house.md

A tree is a checkout, before the move into one package or after it. Nothing of it is imported; its
server and its runner are run once, for the journeys as they run, by this interpreter. The page has
two tables; `--lists` adds the figures of each area, and every file, class, name and function behind
a figure.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import stderr
from textwrap import fill

from bench.house import functions, journeys, private, walk
from bench.house.journeys import Journey, read_journey, run_journeys
from bench.house.measures import Rows, area_rows, house_lists, house_rows
from bench.house.trees import Tree

_GOALS = {"POST, as read: crossings": "≤ 15", "report, as read: crossings": "≤ 6"}
_ABOUT = """\
Written by `python -m bench.house.figures --tree NAME=DIR --tree now=. --output FILE`; `--lists`
adds each area, and every place behind a figure. The last section says how a figure is counted.

f7a21a1 is the last commit before the gradient test became a distribution of its own; `now` is the
tree that has this page, which does more: several workers and servers, one rule for adapters, noise
by row, blended weights. The goals are of a review that counted at b702e72c, before server and
runner were moved into one package (27 and 13 crossings, as read).

Branch coverage of each room is in [coverage.md](coverage.md)."""
_TELLING = (
    "files over 250 lines",
    "classes over 150 lines",
    "functions over 40 lines",
    "private names of other packages",
    "circles of imports",
    "lazy imports of our own",
)
"""The lists that are short enough to print."""


@dataclass(frozen=True)
class Measured:
    """Everything measured of a tree."""

    rows: tuple[Rows, Rows, Rows]
    lists: Mapping[str, Sequence[str]]
    journeys: Mapping[str, Journey | None]


def measure(tree: Tree, *, is_run: bool = True) -> Measured:
    """Measure a tree; run its server only if `is_run`."""
    lists = house_lists(tree)
    found: dict[str, Journey | None] = {
        f"{which}, as read": read_journey(tree, which) for which in journeys.STARTS
    }
    if is_run:
        found |= {f"{which}, as run": each for which, each in run_journeys(tree).items()}
    for name in (name for name, journey in found.items() if journey is None):
        print(
            f"{tree.root}: no journey {name!r}; mend STARTS or READERS in journeys.py", file=stderr
        )
    return Measured((journey_rows(found), house_rows(tree, lists), area_rows(tree)), lists, found)


def journey_rows(found: Mapping[str, Journey | None]) -> Rows:
    """Return the figures of the journeys; a tree without the start of one has none."""
    rows: Rows = {}
    for name, journey in found.items():
        figures = (
            ("crossings", journey and journey.crossings),
            ("stays", journey and len(journey.stays)),
            ("modules", journey and journey.modules),
            ("functions", journey and len(journey.steps)),
        )
        rows |= {f"{name}: {what}": "–" if v is None else str(v) for what, v in figures}
    return rows


def document(measured: Mapping[str, Measured], *, has_lists: bool = False) -> str:
    """Return the page; with `has_lists` also each area, and the places behind each figure."""
    titles = ("Journeys", "The sources as a whole", "Area by area")
    parts = ["# The structure of the sources in figures", _ABOUT]
    for number, title in enumerate(titles if has_lists else titles[:2]):
        columns = {name: each.rows[number] for name, each in measured.items()}
        parts += [f"## {title}", _table(columns, _GOALS if number == 0 else {})]
    for name, each in measured.items() if has_lists else ():
        parts.append(f"## By name: {name}")
        lists = {title: each.lists[title] for title in _TELLING}
        parts += [_listed(title, found) for title, found in lists.items() if found]
        parts += [_journey(title, found) for title, found in each.journeys.items() if found]
    parts += ["## How it is counted", *(_definition(m.__doc__) for m in _DEFINITIONS)]
    return "\n\n".join(parts) + "\n"


_DEFINITIONS = (journeys, walk, functions, private)


def _table(columns: Mapping[str, Rows], goals: Mapping[str, str]) -> str:
    names = list(columns) + (["goal"] if goals else [])
    titles = dict.fromkeys(title for rows in columns.values() for title in rows)
    lines = [f"| | {' | '.join(names)} |", "|---|" + "---|" * len(names)]
    for title in titles:
        cells = [rows.get(title, "–") for rows in columns.values()]
        cells += [goals.get(title, "")] if goals else []
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _listed(title: str, found: Sequence[str]) -> str:
    return "\n".join([f"**{title[0].upper()}{title[1:]}:**", *(f"- {each}" for each in found)])


def _journey(title: str, found: Journey) -> str:
    steps = "\n".join(f"{n}. {line}" for n, line in enumerate(found.described(), 1))
    return f"### {title}\n\nIn bold: a wall is crossed on the way in.\n\n{steps}"


def _definition(text: str | None) -> str:
    return fill(" ".join((text or "").split()), 120, break_on_hyphens=False)


def main() -> None:
    """Measure the trees and write the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--tree", action="append", required=True, help="NAME=DIR, once a column")
    parser.add_argument("--output", type=Path, help="write the page here, else print it")
    parser.add_argument("--read-only", action="store_true", help="run no server")
    parser.add_argument("--lists", action="store_true", help="add areas, and places by name")
    chosen = parser.parse_args()
    named = (each.partition("=") for each in chosen.tree)
    trees = {name: Tree.read(Path(folder)) for name, _, folder in named}
    measured = {name: measure(t, is_run=not chosen.read_only) for name, t in trees.items()}
    page = document(measured, has_lists=chosen.lists)
    if chosen.output is None:
        print(page)
    else:
        chosen.output.write_text(page, "utf-8")


if __name__ == "__main__":
    main()
