"""Outputs are found again by position, padded to a batch, and a block gives them without work."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from cog_adapt.runner.adaptation.kept_outputs import KeptOutputs, UnfitTrunkError, recall
from cog_adapt.runner.modules.batch_rows import holding

WIDTH = 3


def rows(count, length):
    """Distinct numbers, none of them 0."""
    return torch.arange(1.0, 1 + count * length * WIDTH).view(count, length, WIDTH)


def kept(batches, left=False, wrap=lambda x: x):
    """Outputs of several batches, each as positions, their lengths (or None) and a tensor."""
    outputs = KeptOutputs(left)
    for positions, lengths, tensor in batches:
        own = None if lengths is None else dict(zip(positions, lengths, strict=True))
        with holding(positions):
            outputs.add(wrap(tensor), own)
    outputs.seal()
    return outputs


def recalled(outputs, positions, length):
    with holding(positions):
        return outputs.recalled(torch.empty(len(positions), length, WIDTH))


@pytest.mark.parametrize("left", [False, True])
def test_texts_are_kept_at_their_lengths_and_padded_to_the_batch(left):
    first, second = rows(2, 4), rows(1, 2) * 100
    outputs = kept([([5, 7], [4, 1], first), ([2], [2], second)], left)
    assert outputs.bytes == (4 + 1 + 2) * WIDTH * 4
    found = recalled(outputs, [2, 7, 5], 5)
    assert found.shape == (3, 5, WIDTH)
    own = [second[0], first[1, 3:] if left else first[1, :1], first[0]]
    for row, expected in zip(found, own, strict=True):
        length = len(expected)
        part, rest = (
            (row[5 - length :], row[: 5 - length]) if left else row.split([length, 5 - length])
        )
        assert torch.equal(part, expected)
        assert not rest.any()


def test_rows_of_one_shape_are_kept_whole():
    outputs = kept([([1, 0], None, rows(2, 4)), ([2], None, rows(1, 4) * 9)])
    found = recalled(outputs, [2, 1, 1], 1)
    assert torch.equal(found, torch.stack([rows(1, 4)[0] * 9, rows(2, 4)[0], rows(2, 4)[0]]))


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (x, None), lambda x: [None, x, 3]])
def test_what_is_given_back_has_the_form_of_what_was_returned(wrap):
    outputs = kept([([0], None, rows(1, 2))], wrap=wrap)
    expected, found = wrap(rows(1, 2)), recalled(outputs, [0], 2)
    assert type(found) is type(expected)
    flat = [found] if isinstance(found, torch.Tensor) else [*found]
    whole = [expected] if isinstance(expected, torch.Tensor) else [*expected]
    for one, other in zip(flat, whole, strict=True):
        assert torch.equal(one, other) if isinstance(other, torch.Tensor) else one == other


def test_what_is_kept_is_a_copy():
    tensor = rows(1, 2)
    outputs = kept([([0], None, tensor)])
    tensor.zero_()
    recalled(outputs, [0], 2).zero_()
    assert torch.equal(recalled(outputs, [0], 2), rows(1, 2))


@pytest.mark.parametrize(
    ("positions", "output", "said"),
    [
        ([0, 1], rows(3, 2), "3 rows for 2 examples"),
        ([0, 1], (rows(2, 2), rows(2, 2)), "returns 2 tensors"),
        ([0, 1], None, "returns 0 tensors"),
        ([0, 1], torch.tensor(1.0), "returns 1 tensors, not one with rows"),
    ],
)
def test_an_output_that_has_no_rows_is_refused(positions, output, said):
    with pytest.raises(UnfitTrunkError, match=said), holding(positions):
        KeptOutputs().add(output, None)


def test_a_row_is_kept_once():
    outputs = KeptOutputs()
    with holding([0, 1]):
        outputs.add(rows(2, 2), None)
    with pytest.raises(UnfitTrunkError, match="twice"), holding([1, 2]):
        outputs.add(rows(2, 2), None)


def test_a_length_that_an_output_does_not_have_is_refused():
    with pytest.raises(UnfitTrunkError, match="2 columns for 3 tokens"), holding([0]):
        KeptOutputs().add(rows(1, 2), {0: 3})


def test_outputs_that_differ_in_more_than_length_are_refused():
    outputs = KeptOutputs()
    for position, tensor in enumerate((torch.ones(1, 2, 3), torch.ones(1, 2, 4))):
        with holding([position]):
            outputs.add(tensor, None)
    with pytest.raises(UnfitTrunkError, match="more than their lengths"):
        outputs.seal()


@pytest.mark.parametrize(("positions", "length"), [([0, 1, 1], 4), ([0], 1)])
def test_a_batch_that_does_not_fit_is_refused(positions, length):
    outputs = kept([([0, 1], [3, 2], rows(2, 3))])
    with pytest.raises(UnfitTrunkError, match="a block gets"), holding(positions):
        outputs.recalled(torch.empty(len(positions) - (length == 4), length, WIDTH))


class Waits(TorchDispatchMode):
    """Notes of each copy to another device whether it waits for it."""

    def __init__(self):
        super().__init__()
        self.found = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ == "_to_copy" and kwargs.get("device") is not None:
            self.found.append(not kwargs.get("non_blocking"))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("lengths", [None, [3, 1]])
def test_positions_go_to_the_device_without_waiting_for_it(lengths):
    """A copy that waits ends what the device has queued, once a step."""
    tensor = rows(2, 3).to("meta")  # any other device than that of the positions
    outputs = kept([([0, 1], lengths, tensor)])
    with Waits() as waits:
        found = recalled(outputs, [1, 0], 3)
    assert found.shape == (2, 3, WIDTH)
    assert waits.found == [False]


class Counting(nn.Linear):
    """Counts its calls, and has a name that the model reads."""

    kind = "full"
    calls = 0

    def forward(self, hidden):
        self.calls += 1
        return super().forward(hidden)


def test_blocks_give_back_and_do_not_compute_and_keep_their_attributes():
    blocks = [Counting(WIDTH, WIDTH) for _ in range(3)]
    net = nn.Sequential(*blocks)
    outputs = kept([([4, 2], None, rows(2, 1))])
    recall(blocks[:2], outputs)
    with holding([2]):
        found = net(torch.empty(1, 1, WIDTH))
    assert torch.equal(found, nn.Linear.forward(blocks[2], rows(2, 1)[1:]))
    assert [block.calls for block in blocks] == [0, 0, 1]
    assert {block.kind for block in blocks} == {"full"}
    assert isinstance(blocks[0], Counting)
