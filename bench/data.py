"""WordNet's noun glosses: a real data set that comes as a Debian package.

WordNet 3.0 (Princeton University, WordNet licence) puts each noun synset in a lexicographer file
(wordnet/lexnames(5)), which is the label here; the text is the synset's gloss without the usage
examples in quotes. A gloss that occurs twice is dropped, because its label may be ambiguous.
"""

import functools
import hashlib
import random
import statistics
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cog_adapt.runner.data.examples import Example

# Well filled (event, the smallest, has over 1,000 glosses), and named by one English word each.
CATEGORIES = {
    "05": "animal",
    "06": "artifact",
    "08": "body",
    "10": "communication",
    "11": "event",
    "13": "food",
    "15": "location",
    "18": "person",
    "20": "plant",
    "27": "substance",
}
LABELS = tuple(CATEGORIES.values())
TEST_PER_LABEL = 50

_PACKAGE = "wordnet-base"
_NOUNS = Path("usr/share/wordnet/data.noun")
_CACHE = Path(__file__).parent.parent / ".data" / "wordnet"


@dataclass(frozen=True)
class Split:
    """Examples for training and for testing; no gloss is in both."""

    train: list[Example]
    test: list[Example]

    @property
    def texts(self) -> list[str]:
        """The test glosses."""
        return [example.input for example in self.test]

    def accuracy(self, answers: list[str]) -> float:
        """Return the share of test glosses whose label equals the answer."""
        pairs = zip(self.test, answers, strict=True)
        return statistics.fmean(example.target == answer for example, answer in pairs)


def split(per_label: int, seed: int, test_per_label: int = TEST_PER_LABEL) -> Split:
    """Draw glosses of each label; a smaller `per_label` draws a subset of a larger one."""
    train, test = [], []
    for label, texts in glosses().items():
        drawn = [Example(text, label) for text in texts]
        random.Random(f"{seed}/{label}").shuffle(drawn)
        test += drawn[:test_per_label]
        train += drawn[TEST_PER_LABEL : TEST_PER_LABEL + per_label]
    return Split(train, test)


def facts() -> dict[str, str]:
    """Return the facts about the data that results must state."""
    digest = hashlib.sha256(nouns().read_bytes()).hexdigest()
    return {"labels": " ".join(LABELS), "data.noun sha256": digest}


@functools.cache
def glosses() -> dict[str, list[str]]:
    """Return the glosses of each label, in the order of the file."""
    found = [_parsed(line) for line in nouns().read_text("utf-8").splitlines() if line[0] != " "]
    times = Counter(text for _, text in found)
    glosses: dict[str, list[str]] = {label: [] for label in LABELS}
    for number, text in found:
        if number in CATEGORIES and times[text] == 1:
            glosses[CATEGORIES[number]].append(text)
    return glosses


def _parsed(line: str) -> tuple[str, str]:
    """Return lexicographer file number and gloss of a line of `data.noun` (wordnet/wndb(5))."""
    fields, _, gloss = line.partition("| ")
    return fields.split(" ", 2)[1], gloss.partition('; "')[0].strip()


@functools.cache
def nouns() -> Path:
    """Return the path of `data.noun`, and download it first if it is missing."""
    places = [Path("/") / _NOUNS, _CACHE / _NOUNS]
    if not any(place.exists() for place in places):
        _download()
    return next(place for place in places if place.exists())


def _download() -> None:
    _CACHE.mkdir(parents=True, exist_ok=True)
    try:
        # a fresh machine has no package lists yet; if they cannot be renewed, old ones may do
        subprocess.run(["apt-get", "--quiet", "update"], stdout=subprocess.DEVNULL, check=False)
        subprocess.run(["apt-get", "--quiet", "download", _PACKAGE], cwd=_CACHE, check=True)
        archive = next(_CACHE.glob(f"{_PACKAGE}_*.deb"))
        subprocess.run(["dpkg", "-x", archive.name, "."], cwd=_CACHE, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"the package {_PACKAGE} cannot be downloaded: {error}. Run `apt-get update`, or "
            f"install it so that /{_NOUNS} exists."
        ) from error
