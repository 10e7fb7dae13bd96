"""Words by WordNet's relations and classes, which are near one another."""

import functools
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.sets.unseen import sources

Labelled = Iterable[tuple[str, str]]
"""Labels with texts."""

_VERBS = {
    "29": "body",
    "30": "change",
    "31": "cognition",
    "32": "communication",
    "33": "competition",
    "34": "consumption",
    "35": "contact",
    "36": "creation",
    "37": "emotion",
    "38": "motion",
    "39": "perception",
    "40": "possession",
    "41": "social",
    "42": "stative",
}
_NOUNS = {"05": "animal", "06": "artifact", "13": "food", "15": "location", "18": "person"}
_NEAR_NOUNS = {
    "04": "act",
    "07": "attribute",
    "09": "cognition",
    "12": "feeling",
    "22": "process",
    "24": "relation",
    "26": "state",
}
_RELATIONS = {"!": "opposite", "@": "kind", "#p": "part", "#m": "member"}
_PARTS = {"adj": "as", "noun": "n"}
_MOST = 400  # of a relation and a part of speech


@dataclass(frozen=True)
class _Synset:
    file: str
    words: tuple[str, ...]
    pointers: tuple[tuple[str, str, str], ...]
    gloss: str

    def to(self, symbol: str, kinds: str) -> list[str]:
        """Return the offsets at which pointers of a symbol end, for some parts of speech."""
        return [
            offset for found, offset, kind in self.pointers if found == symbol and kind in kinds
        ]


def actions() -> Labelled:
    """Yield glosses of verbs by lexicographer file."""
    for synset in _synsets("verb"):
        if synset.file in _VERBS:
            yield _VERBS[synset.file], synset.gloss


def notions() -> Labelled:
    """Yield glosses of abstract nouns by lexicographer files of nearly one meaning."""
    for synset in _synsets("noun"):
        if synset.file in _NEAR_NOUNS:
            yield _NEAR_NOUNS[synset.file], synset.gloss


def things() -> Labelled:
    """Yield single nouns without their glosses, by lexicographer file."""
    for synset in _synsets("noun"):
        if synset.file in _NOUNS and synset.words[0].islower():
            yield _NOUNS[synset.file], synset.words[0]


def relations() -> Labelled:
    """Yield pairs of words by how the first relates to the second."""
    for part, kinds in _PARTS.items():
        words = {line.split(" ", 1)[0]: _word(line.split(" ", 5)[4]) for line in _lines(part)}
        for symbol, label in _RELATIONS.items():
            pairs = ((s.words[0], words[at]) for s in _synsets(part) for at in s.to(symbol, kinds))
            yield from ((label, ", ".join(pair)) for pair in itertools.islice(pairs, _MOST))


@functools.cache
def _synsets(part: str) -> list[_Synset]:
    return [_parsed(line) for line in _lines(part)]


def _lines(part: str) -> Iterator[str]:
    text = sources.WORDNET.read(f"usr/share/wordnet/data.{part}").decode("utf-8")
    return (line for line in text.splitlines() if line[0] != " ")


def _parsed(line: str) -> _Synset:
    """Parse file, words, pointers and gloss (wordnet/wndb(5)); the count of words is in hex."""
    head, _, gloss = line.partition("| ")
    fields = head.split()
    count = int(fields[3], 16)
    first = 4 + 2 * count
    words = tuple(_word(word) for word in fields[4:first:2])
    starts = range(first + 1, first + 1 + 4 * int(fields[first]), 4)
    pointers = tuple((fields[at], fields[at + 1], fields[at + 2]) for at in starts)
    return _Synset(fields[1], words, pointers, gloss.partition('; "')[0].strip())


def _word(word: str) -> str:
    return word.partition("(")[0].replace("_", " ")
