"""Splits: the same for each contestant, nested, apart from the test texts, wrong as stated."""

from collections import Counter

import pytest

from bench.sets import load
from bench.sets.rows import ROWS, Row, draw


def inputs(examples):
    return {example.input for example in examples}


@pytest.mark.parametrize("row", [row for row in ROWS if row.set_name in ("tickets", "intents")])
def test_no_text_is_in_both_halves(row):
    split = draw(row, seed=3)
    assert not inputs(split.train) & inputs(split.test)
    assert len(inputs(split.train)) == len(split.train)


def test_a_seed_draws_the_same_split_again_and_another_seed_another():
    row = Row("tickets", 4)
    assert draw(row, 1) == draw(row, 1)
    assert inputs(draw(row, 1).train) != inputs(draw(row, 2).train)


def test_rows_of_a_set_share_their_test_texts_and_fewer_examples_are_a_subset():
    few, many = draw(Row("tickets", 4), 0), draw(Row("tickets", 8), 0)
    assert few.test == many.test
    assert inputs(few.train) < inputs(many.train)


def test_noise_gives_a_fifth_of_the_examples_a_wrong_label():
    true = {text: label for label, texts in load("tickets").texts.items() for text in texts}
    split = draw(Row("tickets", 8, noise=0.2), 0)
    wrong = [example for example in split.train if true[example.input] != example.target]
    assert len(wrong) == 16
    assert all(true[example.input] == example.target for example in split.test)


def test_half_of_the_labels_are_rare_and_the_seed_says_which():
    counts = Counter(example.target for example in draw(Row("tickets", 16, rare=2), 0).train)
    assert sorted(counts.values()) == [2] * 5 + [16] * 5
    other = Counter(example.target for example in draw(Row("tickets", 16, rare=2), 1).train)
    assert counts != other


def test_every_row_has_a_name_of_its_own():
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert {"tickets:8 noise", "spam:16/2", "wordnet50:8"} < {row.name for row in ROWS}
