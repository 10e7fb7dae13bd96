"""Reads tables inside packages: each row maps column names to cells."""

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Iterable, Iterator

from sklearn.datasets import load_breast_cancer, load_wine

from bench.sets.archives import Archive
from bench.sets.others import sources

Rows = Iterable[dict[str, str]]
"""Cells by column."""


def islp(name: str) -> Rows:
    """Yield a table of "An Introduction to Statistical Learning"."""
    return _csv(sources.ISLP, f"ISLP/data/{name}.csv")


def wine() -> Rows:
    """Yield wines of three growers by their chemistry."""
    return _sklearn(load_wine())


def tumours() -> Rows:
    """Yield measures of cells by whether the tumour was malignant."""
    return _sklearn(load_breast_cancer())


def penguins() -> Rows:
    """Yield measures of penguins; some are missing."""
    return _csv(sources.PENGUINS, "palmerpenguins/data/penguins.csv")


def hearts() -> Rows:
    """Yield patients by whether vessels of the heart are narrow; some values are missing."""
    return _tab(sources.ORANGE, "Orange/datasets/heart_disease.tab")


def echoes() -> Rows:
    """Yield radar returns from the ionosphere, good and bad."""
    return _tab(sources.ORANGE, "Orange/tests/datasets/ionosphere.tab")


def sites() -> Rows:
    """Yield properties of web pages that phish and that do not."""
    return _csv(sources.RIVER, "river/datasets/phishing.csv.gz")


def segments() -> Rows:
    """Yield measures of pieces of photographs by what they show."""
    return _csv(sources.RIVER, "river/datasets/segment.csv.zip")


def parties() -> Rows:
    """Yield American voters of 1996 by how near they feel to a party, from 0 to 6."""
    text = sources.STATSMODELS.read("statsmodels/datasets/anes96/anes96.csv").decode()
    return _parsed(text.replace("'", ""), "\t")


def cars() -> Rows:
    """Yield cars by the place where they were made; some values are missing."""
    for each in json.loads(sources.VEGA.read("vega_datasets/_data/cars.json")):
        yield {name: "" if value is None else str(value) for name, value in each.items()}


def weather() -> Rows:
    """Yield days in Seattle by their weather."""
    for row in _csv(sources.VEGA, "vega_datasets/_data/seattle-weather.csv"):
        yield {**row, "month": row["date"].split("/")[1]}


def diamonds() -> Rows:
    """Yield cut diamonds."""
    return _csv(sources.PLOTNINE, "plotnine/data/diamonds.csv")


def _sklearn(found: object) -> Iterator[dict[str, str]]:
    names = [str(name) for name in found.feature_names]  # type: ignore[attr-defined]
    labels = found.target_names  # type: ignore[attr-defined]
    for row, target in zip(found.data.tolist(), found.target, strict=True):  # type: ignore[attr-defined]
        yield {**dict(zip(names, map(str, row), strict=True)), "label": str(labels[target])}


def _csv(archive: Archive, name: str) -> Rows:
    data = archive.read(name)
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(data)) as inner:
            data = inner.read(inner.namelist()[0])
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    return _parsed(data.decode("utf-8"), ",")


def _tab(archive: Archive, name: str) -> Rows:
    """Read Orange's format: two lines of types follow the names."""
    lines = archive.read(name).decode("utf-8").splitlines()
    return _parsed("\n".join([lines[0], *lines[3:]]), "\t")


def _parsed(text: str, delimiter: str) -> Rows:
    return csv.DictReader(io.StringIO(text), delimiter=delimiter)
