"""Compares this project's server from two source trees, interleaved in one run with plain FastAPI.

    python -m bench.serving --tree before=DIR --tree after=. --output FILE

This interpreter serves each tree, with the tree on its PYTHONPATH. A row compares one measure of
one case. "change" is the second tree minus the first within each round, as a share of the first's
median (median and quartiles over the rounds). "spread" is the first tree's own interquartile range
over the rounds, as the same share. A row is worse if its median change for the worse exceeds its
spread; "worse in" counts the rounds with such a change, in the result file. The two rounds of
`--quick` are too few for this.
"""

import argparse
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from bench import serving_servers as servers
from bench.report import Columns, Report, Row, Spread
from bench.serving_servers import PREDICTORS
from bench.serving_turns import CASES, PINNED, QUICK, Results, Sizes, Start, measure

ROUNDS = 16
FLOOR = "FastAPI"
MEASURES = {"per second": -1, "p50 ms": 1, "CPU ms": 1}
"""The measures; 1: more is worse, -1: less is worse."""

_NAME = re.compile("[A-Za-z0-9-]+")
_FIXED = ("what", "cores", "measure", FLOOR, "change", "spread", "worse in", "worse")


@dataclass(frozen=True)
class Tree:
    """Sources that hold a `server/`.

    Attributes:
        name: name in the table.
        folder: absolute path.
    """

    name: str
    folder: Path

    @classmethod
    def of(cls, text: str) -> "Tree":
        """Read `NAME=DIR`.

        Raises:
            ArgumentTypeError: the text has another form, or the folder has no server.
        """
        name, _, folder = text.partition("=")
        tree = cls(name, Path(folder).resolve())
        if not _NAME.fullmatch(name) or name in _FIXED or not folder:
            raise argparse.ArgumentTypeError(f"{text!r} is not NAME=DIR, such as after=.")
        if not (tree.folder / "server" / "__main__.py").exists():
            raise argparse.ArgumentTypeError(f"{folder} has no server/__main__.py.")
        return tree

    def commit(self) -> str:
        """Return the tree's commit, and whether files were edited."""
        head = self._git("rev-parse", "--short=12", "HEAD") or "no commit"
        is_edited = bool(self._git("status", "--porcelain", "--untracked-files=no"))
        return f"{head}, edited" if is_edited else head

    def _git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.folder), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.stdout.strip()


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a comparison of trees."""
    parser.add_argument(
        "--tree",
        type=Tree.of,
        action="append",
        metavar="NAME=DIR",
        help="given twice, the second tree is compared with the first",
    )
    parser.add_argument("--rounds", type=int, help=f"of a comparison of trees ({ROUNDS})")


def compare(chosen: argparse.Namespace) -> Report:
    """Measure both trees.

    Raises:
        SystemExit: the trees are not two, or have the same name.
    """
    trees: list[Tree] = chosen.tree
    if len({tree.name for tree in trees}) != 2 or len(trees) != 2:
        raise SystemExit("--tree has to be given twice, with two names.")
    sizes = QUICK if chosen.quick else Sizes(rounds=ROUNDS)
    sizes = replace(sizes, rounds=chosen.rounds or sizes.rounds)
    results = measure(starts(trees), sizes)
    names = [tree.name for tree in trees]
    table = rows(results, *names)
    facts = {**verdict(table, results), **sizes.facts()}
    commits = {tree.name: tree.commit() for tree in trees}
    title = f"Serving a no-op, {' and '.join(names)}"
    return Report(title, columns(*names), table, facts | {"commits": commits})


def starts(trees: list[Tree]) -> list[Start]:
    """Return a server of each tree for each predictor, and plain FastAPI."""
    ours = [
        partial(servers.mirror, predictor=predictor, name=tree.name, tree=tree.folder)
        for tree, predictor in product(trees, PREDICTORS)
    ]
    return [*ours, servers.floor]


def columns(first: str, second: str) -> Columns:
    """Return the columns, with those of the trees."""
    return {
        **{"what": str, "cores": str, "measure": str},
        **{FLOOR: _median, first: _median, second: _median},
        **{"change": _signed, "spread": "{:.1%}".format, "worse": _yes_or_no},
    }


def _median(spread: Spread) -> str:
    return f"{spread.median:.{0 if spread.median >= 100 else 3}f}"


def _signed(change: Spread) -> str:
    low, high = (100 * each for each in (change.lower_quartile, change.upper_quartile))
    return f"{change.median:+.1%} ({low:+.0f} to {high:+.0f})"


def _yes_or_no(value: bool) -> str:
    return "YES" if value else "no"


def rows(results: Results, first: str, second: str) -> list[Row]:
    """Make a row for each placement, case and measure of a server that both trees have."""
    keys = [key for key in results if key[0].partition(",")[0] == first]
    ordered = sorted(keys, key=lambda key: (key[2] != PINNED, CASES.index(key[1]), key[0]))
    table: list[Row] = []
    for server, case, placement in ordered:
        kind = server.removeprefix(first)
        before, after = (results[name + kind, case, placement] for name in (first, second))
        floor = results[FLOOR, case, placement]
        place = {"what": f"{case}{kind}", "cores": placement}
        for title in [each for each in MEASURES if each in before[0]]:
            values = [[turn[title] for turn in turns] for turns in (floor, before, after)]
            spreads = dict(zip((FLOOR, first, second), map(Spread.of, values), strict=True))
            compared = _compared(MEASURES[title], values[1], values[2])
            table.append({**place, "measure": title, **spreads, **compared})
    return table


def _compared(worse: int, before: Sequence[float], after: Sequence[float]) -> Row:
    own = Spread.of(before)
    spread = (own.upper_quartile - own.lower_quartile) / own.median
    changes = [(new - old) / own.median for old, new in zip(before, after, strict=True)]
    change = Spread.of(changes)
    return {
        "change": change,
        "spread": spread,
        "worse in": f"{sum(worse * each > 0 for each in changes)} of {len(changes)}",
        "worse": worse * change.median > spread,
    }


def verdict(table: Sequence[Row], results: Results) -> dict[str, Any]:
    """Return the rows that got worse, and the share of answers without a 2xx status."""
    worse = [f"{row['what']}, {row['cores']}: {row['measure']}" for row in table if row["worse"]]
    shares = [turn["non-2xx"] for turns in results.values() for turn in turns]
    return {
        "rows": len(table),
        "worse by more than the spread": "; ".join(worse) or "none",
        "largest share of non-2xx": f"{max(shares):.2%}",
    }
