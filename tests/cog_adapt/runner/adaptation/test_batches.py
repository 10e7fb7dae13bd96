"""Batches are slices of shuffled epochs; what is held out is drawn label by label."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cog_adapt.runner.adaptation.batches import batch_indices, split, used_positions
from cog_adapt.runner.data.examples import Example


def labelled(**counts):
    return [Example((label, n), label) for label, count in counts.items() for n in range(count)]


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**31))
def test_every_epoch_takes_every_example_once(count, size, seed):
    size = min(size, count)
    row = [i for step in range(count) for i in batch_indices(count, size, step, seed)]
    for epoch in range(size):  # count steps of size examples are exactly size epochs
        assert sorted(row[epoch * count : (epoch + 1) * count]) == list(range(count))


def test_epochs_are_shuffled_anew():
    assert batch_indices(20, 20, 0, 0) != batch_indices(20, 20, 1, 0)
    assert batch_indices(20, 20, 0, 0) != batch_indices(20, 20, 0, 1)
    assert batch_indices(20, 20, 0, 0) == batch_indices(20, 20, 0, 0)


@given(st.lists(st.integers(0, 3), max_size=60), st.floats(0, 0.5), st.integers(0, 2**31))
def test_a_split_loses_and_doubles_nothing(targets, share, seed):
    examples = [Example(n, f"label {target}") for n, target in enumerate(targets)]
    train, held = split(examples, share, seed)
    assert sorted(train + held) == list(range(len(examples)))
    assert (train, held) == (sorted(train), sorted(held))
    for label, count in Counter(e.target for e in examples).items():
        kept = sum(examples[index].target == label for index in held)
        assert kept == (max(1, round(share * count)) if share and count >= 5 else 0)


def test_a_label_of_fewer_than_five_examples_keeps_them_all():
    examples = labelled(a=4, b=5)
    train, held = split(examples, 0.5, 0)
    assert sum(examples[index].target == "a" for index in train) == 4
    assert {examples[index].target for index in held} == {"b"}


def test_nothing_is_held_out_unless_it_is_asked_for():
    assert split(labelled(a=50), 0.0, 0)[1] == []


def test_the_seed_chooses_what_is_held_out():
    held = [split(labelled(a=50), 0.2, seed)[1] for seed in (0, 0, 1)]
    assert held[0] == held[1] != held[2]


@pytest.mark.parametrize("targets", [[1.5] * 10, [[1, 2]] * 10, [{"a": 1}] * 10])
def test_targets_that_are_no_labels_are_one_group(targets):
    train, held = split([Example(n, target) for n, target in enumerate(targets)], 0.2, 0)
    assert (len(train), len(held)) == (8, 2)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 9), st.integers(0, 2**31))
def test_the_positions_that_a_run_uses_are_those_of_its_batches(count, size, steps, seed):
    size = min(size, count)
    batches = [batch_indices(count, size, step, seed) for step in range(steps)]
    assert used_positions(count, size, steps, seed) == sorted({i for row in batches for i in row})
