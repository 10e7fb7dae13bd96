"""Labelled texts for the quality benchmark: small realistic sets, and WordNet's glosses.

`tickets` and `intents` are written for this project and lie beside this module, one JSON object a
line. `spam` and `reviews` are real texts that come inside packages; WordNet comes as one too. None
of the latter is committed.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.sets import packages, wordnet

_FOLDER = Path(__file__).parent
Texts = Mapping[str, list[str]]
"""The texts of each label."""


@dataclass(frozen=True)
class LabelledSet:
    """Texts by label, in a fixed order.

    Attributes:
        name: the name of the set.
        texts: of each label; no text occurs twice.
        test_per_label: how many texts of each label a split tests with.
    """

    name: str
    texts: Texts
    test_per_label: int

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels."""
        return tuple(self.texts)

    @property
    def digest(self) -> str:
        """The SHA-256 of labels and texts, in order."""
        lines = (f"{label}\t{text}" for label, texts in self.texts.items() for text in texts)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _written(name: str) -> Texts:
    texts: dict[str, list[str]] = {}
    for line in (_FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        texts.setdefault(row["label"], []).append(row["text"])
    return texts


_SOURCES: Mapping[str, tuple[Callable[[], Texts], int]] = {
    "tickets": (lambda: _written("tickets"), 30),
    "intents": (lambda: _written("intents"), 28),
    "spam": (packages.spam, 150),
    "reviews": (packages.reviews, 150),
    "wordnet": (wordnet.categories, 50),
    "wordnet50": (wordnet.groups, 10),
}
NAMES = tuple(_SOURCES)


@functools.cache
def load(name: str) -> LabelledSet:
    """Read a set, and download it first if it comes inside a package.

    Raises:
        KeyError: no set has this name.
        SystemExit: the package cannot be downloaded.
    """
    texts, test_per_label = _SOURCES[name]
    return LabelledSet(name, texts(), test_per_label)
