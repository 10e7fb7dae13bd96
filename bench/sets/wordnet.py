"""WordNet's noun glosses with 10 labels, the lexicographer files, or 50, groups of one hypernym.

A group holds the glosses of all synsets below its hypernym, including instances. A synset below
two of the hypernyms belongs to no group, and neither does a gloss that occurs twice.
"""

import functools
from collections import Counter
from dataclasses import dataclass

from bench import data

# Offsets in data.noun of WordNet 3.0; each has 80 glosses or more, and is named by common words.
GROUPS = {
    "bird": "01503061",
    "fish": "02512053",
    "insect": "02159955",
    "snake": "01726692",
    "dog": "02084071",
    "rodent": "02329401",
    "fungus": "12992868",
    "tree": "13104059",
    "shrub": "13112664",
    "grass": "12102133",
    "vegetable": "07707451",
    "fruit": "07705931",
    "beverage": "07881800",
    "bread": "07679356",
    "meat": "07649854",
    "cake": "07628870",
    "drug": "03247620",
    "disease": "14070360",
    "symptom": "14299637",
    "bone": "05269901",
    "weapon": "04565375",
    "tool": "04451818",
    "furniture": "03405725",
    "garment": "03419014",
    "fabric": "03309808",
    "building": "02913152",
    "vehicle": "04524313",
    "game": "00455599",
    "scientist": "10560637",
    "politician": "10450303",
    "musician": "10340312",
    "athlete": "09820263",
    "writer": "10794014",
    "deity": "09505418",
    "river": "09411430",
    "city": "08524735",
    "island": "09316454",
    "language": "06282651",
    "mineral": "14662574",
    "color": "04956594",
    "emotion": "07480068",
    "battle": "00953559",
    "crime": "00766234",
    "holiday": "15183428",
    "software": "06566077",
    "weather": "11524662",
    "container": "03094503",
    "musical instrument": "03800933",
    "currency": "13604718",
    "document": "06470073",
}
_HYPERNYM = ("@", "@i")  # of a class and of an instance
_PER_POINTER = 4


@dataclass(frozen=True)
class Synset:
    """A line of `data.noun`: the offsets of the synsets above it, and its gloss."""

    above: tuple[str, ...]
    gloss: str


def categories() -> dict[str, list[str]]:
    """Return glosses of ten lexicographer files."""
    return {label: list(texts) for label, texts in data.glosses().items()}


def groups() -> dict[str, list[str]]:
    """Return glosses of fifty groups, each of at least 80."""
    synsets = read_synsets()
    times = Counter(synset.gloss for synset in synsets.values())
    label_of = {offset: label for label, offset in GROUPS.items()}
    found: dict[str, list[str]] = {label: [] for label in GROUPS}
    for synset in synsets.values():
        labels = [label_of[offset] for offset in _all_above(synset, synsets) & label_of.keys()]
        if len(labels) == 1 and times[synset.gloss] == 1:
            found[labels[0]].append(synset.gloss)
    return found


def _all_above(synset: Synset, synsets: dict[str, Synset]) -> set[str]:
    seen: set[str] = set()
    waiting = list(synset.above)
    while waiting:
        offset = waiting.pop()
        if offset not in seen:
            seen.add(offset)
            waiting += synsets[offset].above
    return seen


@functools.cache
def read_synsets() -> dict[str, Synset]:
    """Return every synset of the nouns by its offset in the file."""
    lines = data.nouns().read_text("utf-8").splitlines()
    return {line.split(" ", 1)[0]: _parsed(line) for line in lines if line[0] != " "}


def _parsed(line: str) -> Synset:
    """Parse offset, words, pointers and gloss (wordnet/wndb(5)); the count of words is in hex."""
    head, _, gloss = line.partition("| ")
    fields = head.split()
    first = 4 + 2 * int(fields[3], 16)
    starts = range(first + 1, first + 1 + _PER_POINTER * int(fields[first]), _PER_POINTER)
    above = tuple(fields[at + 1] for at in starts if fields[at] in _HYPERNYM)
    return Synset(above, gloss.partition('; "')[0].strip())
