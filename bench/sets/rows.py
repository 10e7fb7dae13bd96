"""The rows of the quality benchmark: a set, how many examples of each label, and what is wrong.

A split of a row and a seed is the same for every contestant. Its test texts are the same for all
rows of a set, and fewer examples a label are a subset of more, so rows of a set can be compared.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from bench.data import Split
from bench.sets import load
from bench.sets.labelled import LabelledSet
from cog_adapt.runner.data.examples import Example

_NOISE = 0.2
_RARE = 2


@dataclass(frozen=True)
class Row:
    """The properties by which a split is drawn.

    Attributes:
        set_name: of the texts.
        per_label: examples of each label.
        noise: the share of examples whose label is replaced by a wrong one.
        rare: examples of each label in the half of the labels that is rare; 0: no label is.
    """

    set_name: str
    per_label: int
    noise: float = 0.0
    rare: int = 0

    @property
    def name(self) -> str:
        """The name of the row, such as `tickets:8`, `tickets:8 noise` or `tickets:16/2`."""
        sizes = f"{self.per_label}/{self.rare}" if self.rare else str(self.per_label)
        return f"{self.set_name}:{sizes}{' noise' if self.noise else ''}"

    @property
    def fewest(self) -> int:
        """Examples of the rarest label."""
        return self.rare or self.per_label


def _rows(set_name: str, sizes: Sequence[int], noisy: int = 0, common: int = 0) -> list[Row]:
    rows = [Row(set_name, size) for size in sizes]
    rows += [Row(set_name, noisy, noise=_NOISE)] if noisy else []
    return rows + ([Row(set_name, common, rare=_RARE)] if common else [])


ROWS = (
    *_rows("tickets", (1, 4, 8), noisy=8, common=16),
    *_rows("spam", (1, 8, 16), common=16),
    *_rows("reviews", (8,)),
    *_rows("intents", (4, 8)),
    *_rows("wordnet", (1, 4, 8, 16, 32), noisy=8, common=16),
    *_rows("wordnet50", (8,)),
)


def draw(row: Row, seed: int) -> Split:
    """Draw examples and test texts of a row; no text is in both."""
    return drawn_from(load(row.set_name), row, seed)


def drawn_from(texts: LabelledSet, row: Row, seed: int) -> Split:
    """Draw as `draw` does, from a given set."""
    common = _common_labels(row, texts, seed)
    train, test = [], []
    for label, all_texts in texts.texts.items():
        drawn = [Example(text, label) for text in all_texts]
        random.Random(f"{seed}/{label}").shuffle(drawn)
        test += drawn[: texts.test_per_label]
        count = row.per_label if label in common else row.rare
        train += drawn[texts.test_per_label :][:count]
    chance = random.Random(f"{seed}/order")
    chance.shuffle(train)
    return Split(_with_noise(train, row.noise, texts.labels, chance), test)


def _common_labels(row: Row, texts: LabelledSet, seed: int) -> set[str]:
    """Return all labels, or the random half of them that is not rare."""
    labels = list(texts.labels)
    if not row.rare:
        return set(labels)
    random.Random(f"{seed}/common").shuffle(labels)
    return set(labels[: len(labels) // 2])


def _with_noise(
    examples: Sequence[Example], share: float, labels: Sequence[str], chance: random.Random
) -> list[Example]:
    """Give a random share of the examples another label."""
    wrong = set(chance.sample(range(len(examples)), round(share * len(examples))))
    return [
        Example(e.input, chance.choice([label for label in labels if label != e.target]))
        if number in wrong
        else e
        for number, e in enumerate(examples)
    ]
