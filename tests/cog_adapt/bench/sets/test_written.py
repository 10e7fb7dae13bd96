"""The sets written for this project: enough texts a label, none twice, not made from a pattern."""

import pytest

from bench.sets import load
from bench.sets.rows import ROWS


@pytest.fixture(params=["tickets", "intents"])
def written(request):
    return load(request.param)


def test_each_label_has_texts_for_the_largest_row_beside_those_to_test_with(written):
    largest = max(row.per_label for row in ROWS if row.set_name == written.name)
    short = {
        label: len(texts)
        for label, texts in written.texts.items()
        if len(texts) < largest + written.test_per_label
    }
    assert not short


def test_the_calibration_of_a_written_set_is_counted_on_300_rows_or_more(written):
    assert written.test_per_label * len(written.labels) >= 300


def test_no_text_occurs_twice(written):
    texts = [" ".join(text.lower().split()) for each in written.texts.values() for text in each]
    assert len(set(texts)) == len(texts)


def test_texts_are_not_made_from_one_pattern(written):
    """No beginning of four words is common to more than three texts of a set."""
    begins: dict[str, int] = {}
    for texts in written.texts.values():
        for text in texts:
            first = " ".join(text.lower().split()[:4])
            begins[first] = begins.get(first, 0) + 1
    assert max(begins.values()) <= 3


def test_the_digest_names_the_texts():
    assert load("tickets").digest != load("intents").digest
