"""A gathered batch is bit for bit the one that the task encodes, or it is encoded anew."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence

from cog_adapt.runner.adaptation.row_store import RowStore

TARGETS = "targets"


class Source:
    """Rows of numbers, padded with 7 on one side; counts what it encodes."""

    def __init__(self, lengths, side="right", fill=7):
        self.rows = [torch.arange(1, length + 1) + 100 * n for n, length in enumerate(lengths)]
        self.side, self.fill, self.calls = side, fill, []

    def __call__(self, chosen):
        self.calls.append(list(chosen))
        rows = [self.rows[position] for position in chosen]
        masks = [torch.ones(len(row), 2) for row in rows]
        return {
            "ids": pad_sequence(rows, True, self.fill, self.side),
            "mask": pad_sequence(masks, True, 0, self.side),
            TARGETS: torch.tensor([float(position) for position in chosen]),
        }


def same(one, other):
    return one.keys() == other.keys() and all(
        one[n].dtype == other[n].dtype and torch.equal(one[n], other[n]) for n in one
    )


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.lists(st.lists(st.integers(0, 7), min_size=1, max_size=6), min_size=1, max_size=6),
    st.sampled_from(["right", "left"]),
)
def test_a_batch_is_the_one_that_is_encoded(lengths, batches, side):
    source = Source(lengths, side)
    store = RowStore(source, TARGETS)
    for batch in batches:
        chosen = [position % len(lengths) for position in batch]
        assert same(store.gather(chosen), Source(lengths, side)(chosen))


def test_an_example_is_encoded_once():
    source = Source([2, 5, 3, 4])
    store = RowStore(source, TARGETS)
    for _ in range(3):
        store.gather([0, 1, 2])
        store.gather([3, 2])
    assert source.calls == [[0], [1], [2], [0, 1, 2], [3]]


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_is_learned_from_the_first_rows_of_unequal_lengths(side):
    source = Source([3, 3, 5], side)
    store = RowStore(source, TARGETS)
    store.gather([0, 1])
    assert store.padding == {}
    store.gather([0, 2])
    assert store.padding == {"ids": (7, side), "mask": (0, side)}
    assert store.pads_left is (side == "left")
    assert source.calls == [[0], [1], [0, 1], [2], [0, 2]]


class Rounded(Source):
    """Pads to a multiple of 4, which rows alone do not show."""

    def __call__(self, chosen):
        batch = super().__call__(chosen)
        length = batch["ids"].shape[1]
        more = -length % 4 if len(chosen) > 1 else 0
        ids = torch.nn.functional.pad(batch["ids"], (0, more), value=7)
        return batch | {"ids": ids}


class Mixing(Source):
    """Centres a batch: rows depend on their neighbours."""

    def __call__(self, chosen):
        batch = super().__call__(chosen)
        return batch | {TARGETS: batch[TARGETS] - batch[TARGETS].mean()}


class Naming(Source):
    """Has a tensor more for several rows."""

    def __call__(self, chosen):
        batch = super().__call__(chosen)
        return batch | ({"more": batch["ids"]} if len(chosen) > 1 else {})


@pytest.mark.parametrize("kind", [Rounded, Mixing, Naming])
def test_what_cannot_be_gathered_is_encoded_each_time(kind):
    source = kind([3, 5, 2])
    store = RowStore(source, TARGETS)
    for chosen in ([0, 1], [2, 1], [0, 1, 2]):
        assert same(store.gather(chosen), kind([3, 5, 2])(chosen))
    assert store.fits is False


def test_rows_beyond_the_bytes_are_encoded_at_each_use():
    source = Source([4, 4, 4])
    measured = RowStore(source, TARGETS, most_bytes=10_000)
    measured.row(0)
    store = RowStore(source, TARGETS, most_bytes=10_000 - measured.free_bytes)
    store.gather([0, 1])
    source.calls.clear()
    assert same(store.gather([0, 1]), Source([4, 4, 4])([0, 1]))
    assert source.calls == [[1]]


@pytest.mark.parametrize("side", ["right", "left"])
def test_lengths_are_rounded_up_to_few_but_not_beyond_the_longest(side):
    source = Source([1, 2, 3, 5, 6, 7, 10], side)
    store = RowStore(source, TARGETS, bucket=4)
    store.compare_lengths(range(7))
    widths = [store.gather([position])["ids"].shape[1] for position in range(7)]
    assert widths == [4, 4, 4, 8, 8, 8, 10]
    padded, plain = store.gather([1, 2]), source([1, 2])
    assert padded["mask"].sum() == plain["mask"].sum()
    rest = padded["ids"][:, 3:] if side == "right" else padded["ids"][:, :1]
    assert rest.unique().tolist() == [7]


def test_own_lengths_are_those_of_an_input_and_not_of_a_target():
    class Answering(Source):
        def __call__(self, chosen):
            batch = super().__call__(chosen)
            return {TARGETS: pad_sequence([self.rows[p][:1] for p in chosen], True), **batch}

    store = RowStore(Answering([2, 5, 3]), TARGETS)
    assert store.lengths([0, 1]) is None
    store.compare_lengths([0, 1, 2])
    assert store.lengths([1, 2]) == [5, 3]
