"""Sets that `auto` was not tuned to: many, in groups, cleaned so that a split can be drawn."""

import pytest

from bench.sets import unseen
from bench.sets.rows import Row, drawn_from
from bench.sets.unseen import Source

WRITTEN = ("manners", "urgency", "reports", "answers", "phishing")


def test_there_are_enough_sets_and_groups_each_with_a_licence():
    assert len(unseen.SOURCES) >= 24
    assert len({source.group for source in unseen.SOURCES.values()}) >= 6
    assert all(source.licence for source in unseen.SOURCES.values())


@pytest.mark.parametrize("name", WRITTEN)
def test_a_written_set_has_examples_and_tests_apart(name):
    split = drawn_from(unseen.load(name), Row(name, 16), seed=0)
    train = {example.input for example in split.train}
    assert not train & {example.input for example in split.test}
    labels = unseen.load(name).labels
    assert len(split.train) == 16 * len(labels)
    assert len(split.test) >= 30 * len(labels)


def test_texts_of_two_labels_are_left_out_and_long_ones_cut(monkeypatch):
    long = " ".join(["word"] * 100)
    rows = [(label, f"{label} text {n}") for label in "ab" for n in range(40)]
    rows += [("a", "of both"), ("b", "of both"), ("a", long), ("b", "one"), ("c", "few of it")]
    monkeypatch.setattr(unseen, "SOURCES", {"made": Source("group", lambda: rows, "none")})
    found = unseen.load.__wrapped__("made")
    assert found.labels == ("a", "b")
    texts = found.texts["a"] + found.texts["b"]
    assert "of both" not in texts
    assert "one" not in texts
    assert max(len(text.split()) for text in texts) == 60
