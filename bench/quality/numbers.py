"""Tables of numbers as frozen features, and their contestants, scored by R².

The network has learned the same number from another group of rows; its head is the prior.
"""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from torch import Tensor

from bench.data import Split
from bench.quality.features import features_of, inputs_of, learned_head
from bench.sets import others
from bench.sets.rows import Row
from cog_adapt.runner.data.examples import Example
from cog_adapt.runner.heads.closed_form import fit_numbers
from cog_adapt.runner.heads.linear_head import LinearHead

SIZES = (8, 16, 32, 64)
BASE, RIDGE, CLOSED = "base", "ridge", "closed form"
_TESTED = 150  # rows at most
_NEIGHBOURS = 5
_PENALTIES = np.logspace(-3, 3, 13)


@dataclass(frozen=True)
class NumberCase:
    """One split of a table of numbers.

    Attributes:
        features: of the examples, (N, D).
        targets: their numbers, (N, 1).
        test: features of the test rows, (M, D).
        wanted: their numbers, (M, 1).
        prior: the head before any example.
    """

    features: Tensor
    targets: Tensor
    test: Tensor
    wanted: Tensor
    prior: LinearHead


def draw_numbers(row: Row, seed: int) -> Split:
    """Draw examples and test rows; fewer examples are a subset of more."""
    rows = [Example(json.dumps(x), float(y)) for x, y in others.table(row.set_name).rows]
    random.Random(seed).shuffle(rows)
    tested = min(_TESTED, len(rows) - max(SIZES))
    return Split(rows[tested:][: row.per_label], rows[:tested])


def number_case(row: Row, seed: int) -> NumberCase:
    """Draw a split, and take its features from the table's."""
    every = inputs_of(row.set_name)
    found = features_of(row.set_name)
    place = {value: at for at, value in enumerate(every)}
    split = draw_numbers(row, seed)

    def taken(examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
        numbers = torch.tensor([[example.target] for example in examples])
        return found[[place[example.input] for example in examples]], numbers

    return NumberCase(*taken(split.train), *taken(split.test), learned_head(row.set_name))


def _ridge(case: NumberCase) -> Tensor:
    model = RidgeCV(_PENALTIES).fit(case.features.numpy(), case.targets.numpy()[:, 0])
    return torch.from_numpy(model.predict(case.test.numpy()))[:, None]


def _neighbours(case: NumberCase) -> Tensor:
    count = min(_NEIGHBOURS, len(case.features))
    model = KNeighborsRegressor(count).fit(case.features.numpy(), case.targets.numpy())
    return torch.from_numpy(model.predict(case.test.numpy()))


def _closed(case: NumberCase) -> Tensor:
    return fit_numbers(case.features, case.targets, case.prior).head(case.test)


CONTESTANTS: Mapping[str, Callable[[NumberCase], Tensor]] = {
    BASE: lambda case: case.prior(case.test),
    RIDGE: _ridge,
    "neighbours": _neighbours,
    CLOSED: _closed,
}
