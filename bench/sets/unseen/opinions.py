"""Opinions, tone and authors: classes that show in manner rather than in topic."""

import csv
import io
from collections.abc import Iterable, Iterator

from bench.sets.packages import rated
from bench.sets.unseen import sources

Labelled = Iterable[tuple[str, str]]
"""Labels with texts."""

_CLEAR = 1.5  # of ratings from -4 to 4
_NEUTRAL = 0.3


def tweets() -> Labelled:
    """Yield tweets that persons rate as good or bad in mood."""
    return _signed("tweets_GroundTruth.txt", "positive", "negative")


def products() -> Labelled:
    """Yield sentences of product reviews; the label of the bad ones is a negation."""
    return _signed("amazonReviewSnippets_GroundTruth.txt", "recommended", "not recommended")


def editorials() -> Labelled:
    """Yield sentences of a newspaper's editorials: approving, disapproving or neither."""
    for text, rating in rated("nytEditorialSnippets_GroundTruth.txt"):
        if abs(rating) < _NEUTRAL:
            yield "neutral", text
        elif abs(rating) > _CLEAR:
            yield "approval" if rating > 0 else "criticism", text


def candidates() -> Labelled:
    """Yield tweets by two candidates, without retweets."""
    path = "orangecontrib/text/datasets/election-tweets-2016.tab"
    lines = io.StringIO(sources.ORANGE.read(path).decode("utf-8"))
    for row in [*csv.reader(lines, delimiter="\t")][3:]:
        if row[0] == "False":
            words = [word for word in row[9].split() if not word.startswith(("http", "@"))]
            yield row[7], " ".join(words)


def _signed(name: str, good: str, bad: str) -> Iterator[tuple[str, str]]:
    for text, rating in rated(name):
        if abs(rating) >= 1:
            yield good if rating > 0 else bad, text
