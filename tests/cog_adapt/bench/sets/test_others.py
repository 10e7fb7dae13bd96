"""Sets of pictures and tables: enough of each kind, half of them held, each read the same way."""

import json
import math
from pathlib import Path

import pytest

from bench.sets import others
from bench.sets.others import HELD, NUMBERS, PICTURES, SOURCES, TABLES, tables
from bench.sets.others.tables import TableSource, table_of
from bench.sets.rows import Row, drawn_from

WITHOUT_PACKAGES = ("wine", "tumours")
FIGURES = Path(__file__).parents[4] / "docs" / "results" / "left-out-others.json"


def test_there_are_enough_sets_of_each_kind_each_with_a_licence_and_a_package_known_by_its_hash():
    assert len(others.names_of(PICTURES)) >= 6
    assert len(others.names_of(TABLES)) >= 8
    assert len(others.names_of(NUMBERS)) >= 4
    for name, source in SOURCES.items():
        assert source.archives or name in WITHOUT_PACKAGES
        assert all(source.licences)
        assert all(len(archive.digest) == 64 for archive in source.archives)


@pytest.mark.parametrize("name", SOURCES)
def test_a_set_is_the_one_that_the_figures_are_of(name):
    if not SOURCES[name].is_here:
        pytest.skip("its package is not downloaded")
    settings = json.loads(FIGURES.read_text("utf-8"))["settings"]
    assert others.digest(name) == settings[f"{name} sha256"]
    if SOURCES[name].kind != NUMBERS:
        found = others.load(name)
        assert len(found.labels) >= 2
        assert min(map(len, found.texts.values())) >= found.test_per_label + 16


@pytest.mark.parametrize("kind", [PICTURES, TABLES, NUMBERS])
def test_half_of_the_sets_of_each_kind_are_held(kind):
    names = others.names_of(kind)
    assert 2 * len(HELD & set(names)) == len(names)


def test_the_held_half_is_the_one_that_was_declared_before_any_figure():
    assert {
        *("clip art", "beasts", "dishes", "stamps", "icons", "makers"),
        *("tumours", "echoes", "sites", "segments", "juice", "market", "parties", "cuts"),
        *("miles", "salaries", "wages", "fees"),
    } == HELD


@pytest.mark.parametrize("name", WITHOUT_PACKAGES)
def test_a_set_has_examples_and_tests_apart_and_rows_of_finite_numbers(name):
    found = others.load(name)
    split = drawn_from(found, Row(name, 16), seed=0)
    train = {example.input for example in split.train}
    assert len(train) == 16 * len(found.labels)
    assert not train & {example.input for example in split.test}
    rows = [json.loads(each) for each in train]
    assert {len(row) for row in rows} == {others.table(name).width}
    assert all(math.isfinite(number) for row in rows for number in row)


@pytest.mark.parametrize("name", WITHOUT_PACKAGES)
def test_the_network_has_learned_from_rows_that_take_no_part(name):
    learned = {json.dumps(row) for row, _ in others.table(name).learned}
    drawn = {each for texts in others.load(name).texts.values() for each in texts}
    assert len(learned) >= 40
    assert not learned & drawn


def mixed():
    for number in range(90):
        size = "" if number % 9 == 0 else str(number)
        colour = ("red", "green", "?")[number % 3]
        yield {"size": size, "colour": colour, "price": str(number * 2), "sold": str(number % 2)}


def test_missing_numbers_are_the_mean_and_said_and_words_are_columns():
    found = table_of(TableSource(mixed, "sold", "price"), "made")
    mean = tables.Column.of("size", list(mixed())).mean
    assert mean is not None
    assert found.width == 2 + 3  # a size and whether it is missing; three words
    rows = [row for row, _ in (*found.learned, *found.rows)]
    assert {row[1] for row in rows} == {0.0, 1.0}
    assert len({row[0] for row in rows if row[1]}) == 1
    assert all(sum(row[2:]) == 1 for row in rows)


def test_a_group_of_rows_that_the_network_knows_is_not_adapted_to():
    source = TableSource(mixed, "price", "price", knows=lambda row: row["colour"] == "red")
    found = table_of(source, "made")
    assert len(found.learned) == 30
    assert len(found.rows) == 60
    numbers = [number for _, number in found.learned]
    assert abs(sum(numbers)) < 1e-3  # in deviations from their mean
