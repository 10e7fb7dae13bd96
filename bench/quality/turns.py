"""Contestants take turns on the same splits: all rows of a split come before the next split."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bench.data import Split
from bench.quality.records import Key, Records, Results, Work
from bench.quality.scores import Scores
from bench.sets.rows import Row
from cog_adapt.runner.config import Recipe

Contestant = Callable[[Split, Recipe], Scores]
"""Adapts to a split and is scored on its test; steps and seed are the recipe's."""


@dataclass(frozen=True)
class Plan:
    """What is measured: rows, the number of splits of each, and the recipe of steps."""

    rows: Sequence[Row]
    splits: int
    recipe: Recipe


@dataclass(frozen=True)
class Data:
    """A function that draws a row and a seed into a split, and the digest of a set by its name."""

    draw: Callable[[Row, int], Split]
    digest: Callable[[str], str]


def turns(plan: Plan, data: Data, contestants: Mapping[str, Contestant]) -> Work:
    """Yield every contestant of every split, each in turn the first."""
    names = [*contestants]
    digests = {name: data.digest(name) for name in {row.set_name for row in plan.rows}}
    for number, row in itertools.product(range(plan.splits), plan.rows):
        first = number % len(names)
        recipe = dataclasses.replace(plan.recipe, seed=number)
        for name in names[first:] + names[:first]:
            run = partial(_run, contestants[name], partial(data.draw, row, number), recipe)
            yield Key(row.name, number, name, digests[row.set_name]), run


def _run(contestant: Contestant, draw: Callable[[], Split], recipe: Recipe) -> Scores:
    return contestant(draw(), recipe)


def results_of(plan: Plan, data: Data, records: Records) -> Results:
    """Return all scores of the plan's rows, including contestants of earlier runs."""
    digests = {name: data.digest(name) for name in {row.set_name for row in plan.rows}}
    return {
        row.name: records.of_row(row.name, digests[row.set_name], plan.splits) for row in plan.rows
    }
