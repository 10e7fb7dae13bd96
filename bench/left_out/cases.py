"""The splits that closed forms are judged on, as frozen features.

Splits that choose and splits that judge are of other seeds, also within one set.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bench.left_out.features import FeatureStore
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


def cases(store: FeatureStore, rows: Sequence[Row], seeds: Sequence[int]) -> Iterator[Case]:
    """Yield the splits of rows in which each label has an example."""
    for row in rows:
        texts = unseen.load(row.set_name)
        drawn = (case_of(store, texts, row, seed) for seed in seeds)
        yield from (case for case in drawn if case.is_whole)


def case_of(store: FeatureStore, texts: LabelledSet, row: Row, seed: int) -> Case:
    """Draw a split, and look its features up."""
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
