"""Measures predictions a second by the number of adapters in flight, with 16 ready on the device.

    python -m bench.adapters_in_flight --tree before=DIR --tree after=. --output FILE

Each request is a whole one (`cog_adapt.answer`) with one text, for one of N adapters of rank 8,
drawn uniformly; 32 callers ask again at once. The numbers N and the source trees take turns within
one run, with memory that holds all adapters and with memory for 64, so that the disk is read. A
last pass profiles the model thread and the thread that looks adapters up, for the fewest and the
most adapters.
"""

import argparse
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.in_flight_turns import ALL, CALLERS, SOME, Contestant, Turn
from bench.report import Columns, Report, Spread, arguments, interleave
from bench.serving_trees import Tree
from cog_adapt import RunnerSettings
from cog_adapt.runner.devices.device import choose_precision

Key = tuple[str, str, int]
"""Tree, memory, adapters in flight."""


@dataclass(frozen=True)
class Sizes:
    """The numbers in flight, rounds, and requests of a turn."""

    numbers: Sequence[int] = (8, 16, 32, 64, 128, 256, 512, 1024)
    rounds: int = 7
    requests: int = 160
    warm: int = 64


QUICK = Sizes(numbers=(8, 64), rounds=2, requests=64, warm=32)


def whole(number: float) -> str:
    """Format a number without decimals."""
    return f"{number:.0f}"


def rate(spread: Spread) -> str:
    """Format the median and quartiles of a rate."""
    return f"{spread.median:.0f} ({spread.lower_quartile:.0f}–{spread.upper_quartile:.0f})"


def tenths(spread: Spread) -> str:
    """Format a median and quartiles with a decimal."""
    return f"{spread.median:.1f} ({spread.lower_quartile:.1f}–{spread.upper_quartile:.1f})"


def percent(part: float) -> str:
    """Format a share."""
    return f"{part:.0%}"


COLUMNS: Columns = {
    "tree": str,
    "memory": str,
    "adapters": whole,
    "predictions a second": rate,
    "CPU ms": tenths,
    "of 8, times slower": tenths,
    "ready on the device": percent,
    "in memory": percent,
}


def measure(contestants: Mapping[str, Contestant], sizes: Sizes) -> list[dict[str, Any]]:
    """Let trees, numbers and memories take turns."""
    turns = {
        (tree, memory, count): partial(_turn, contestant, memory, count, sizes)
        for tree, contestant in contestants.items()
        for memory in (ALL, SOME)
        for count in sizes.numbers
    }
    names = {", ".join(map(str, key)): key for key in turns}
    results = interleave({name: turns[key] for name, key in names.items()}, sizes.rounds)
    by_key = {key: results[name] for name, key in names.items()}
    return [row(by_key, key, sizes.numbers[0]) for key in turns]


def _turn(contestant: Contestant, memory: str, count: int, sizes: Sizes, number: int) -> Turn:
    return contestant.turn(
        memory, count=count, requests=sizes.requests, warm=sizes.warm, seed=number
    )


def row(results: Mapping[Key, Sequence[Turn]], key: Key, first: int) -> dict[str, Any]:
    """Make a row; its ratio is within each round, in CPU time."""
    tree, memory, count = key
    own, base = results[key], results[tree, memory, first]
    return {
        "tree": tree,
        "memory": memory,
        "adapters": count,
        "predictions a second": Spread.of([1 / each.seconds for each in own]),
        "CPU ms": Spread.of([1e3 * each.cpu for each in own]),
        "of 8, times slower": Spread.of(
            [each.cpu / less.cpu for each, less in zip(own, base, strict=True)]
        ),
        "ready on the device": Spread.of([each.device for each in own]).mean,
        "in memory": Spread.of([each.memory for each in own]).mean,
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the trees, the numbers in flight, and how often each has its turn."""
    parser.add_argument(
        "--tree",
        type=Tree.of,
        action="append",
        metavar="NAME=DIR",
        help="sources to measure; may be given several times (after=.)",
    )
    parser.add_argument("--rounds", type=int, default=Sizes().rounds)
    parser.add_argument("--numbers", type=int, nargs="+", default=Sizes().numbers)


def main() -> None:
    """Measure predictions a second by the number of adapters in flight."""
    chosen = arguments(main.__doc__, add_options)
    sizes = QUICK if chosen.quick else Sizes(chosen.numbers, chosen.rounds)
    trees: list[Tree] = chosen.tree or [Tree("after", Path.cwd())]
    most = max(sizes.numbers)
    with ExitStack() as stack:
        contestants = {
            tree.name: stack.enter_context(closing(Contestant(tree.folder, most, chosen.threads)))
            for tree in trees
        }
        found = [contestant.facts for contestant in contestants.values()]  # they start together
        rows = measure(contestants, sizes)
        facts: dict[str, Any] = {
            **found[0],
            "callers": CALLERS,
            "requests a turn": sizes.requests,
            "rounds": sizes.rounds,
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
            "commits": {tree.name: tree.commit() for tree in trees},
        }
        facts |= {
            f"profiled a request, {tree}, {memory}, {count}": contestant.profile(
                memory, count=count, requests=sizes.requests
            )
            for tree, contestant in contestants.items()
            for memory in (ALL, SOME)
            for count in (sizes.numbers[0], most)
        }
    precision = choose_precision(RunnerSettings.from_environment())
    Report("Adapters in flight", COLUMNS, rows, facts).publish(precision, chosen.output)


if __name__ == "__main__":
    main()
