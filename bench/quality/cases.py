"""The splits that closed forms are judged on, as frozen features.

Splits that choose and splits that judge have different seeds, also within one set.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.quality.features import FeatureStore
from bench.sets import unseen
from bench.sets.labelled import LabelledSet
from bench.sets.rows import Row, drawn_from

SIZES = (1, 4, 8, 16)
KINDS = (
    *(Row("", size) for size in SIZES),
    Row("", 8, noise=0.2),
    Row("", 16, rare=2),
)
"""The rows of each set."""
FIRST_TO_CHOOSE = 100  # seeds below judge
Loader = Callable[[str], LabelledSet]
"""Reads a set by its name."""


@dataclass(frozen=True)
class Case:
    """One split of one row.

    Attributes:
        row: of the set.
        seed: of the split.
        digest: of the set.
        features: of the examples, (N, D).
        targets: their class numbers, (N,).
        test: features of the test texts, (M, D).
        wanted: their class numbers, (M,).
        names: the head before any example, (K, D).
    """

    row: Row
    seed: int
    digest: str
    features: Tensor
    targets: Tensor
    test: Tensor
    wanted: Tensor
    names: Tensor

    @property
    def is_whole(self) -> bool:
        """Whether each label has an example; noise may take a label's only ones."""
        return len(set(self.targets.tolist())) == len(self.names)


def rows_of(names: Sequence[str]) -> list[Row]:
    """Return all rows of sets."""
    return [Row(name, kind.per_label, kind.noise, kind.rare) for name in names for kind in KINDS]


def group_of(row: Row) -> str:
    """Return the group of a row's set."""
    return unseen.SOURCES[row.set_name].group


def is_like(row: Row, kind: Row) -> bool:
    """Return whether a row is of a kind, in any set."""
    return (row.per_label, row.noise, row.rare) == (kind.per_label, kind.noise, kind.rare)


def cases(
    store: FeatureStore, load: Loader, rows: Sequence[Row], seeds: Sequence[int]
) -> Iterator[Case]:
    """Yield the splits in which each label has an example, all rows of a seed before the next."""
    for seed, row in itertools.product(seeds, rows):
        case = case_of(store, load(row.set_name), row, seed)
        if case.is_whole:
            yield case


def case_of(store: FeatureStore, texts: LabelledSet, row: Row, seed: int) -> Case:
    """Draw a split, and take its features from the set's."""
    split, found = drawn_from(texts, row, seed), store.of(texts)
    number = {label: at for at, label in enumerate(texts.labels)}
    return Case(
        row,
        seed,
        texts.digest,
        found.of([example.input for example in split.train]),
        torch.tensor([number[example.target] for example in split.train]),
        found.of(split.texts),
        torch.tensor([number[example.target] for example in split.test]),
        found.names,
    )
