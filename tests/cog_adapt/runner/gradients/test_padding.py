"""The padding row of an embedding, which gets no gradient, is no fault of its own."""

import torch
from torch import nn

from cog_adapt.runner.gradients.padding import ignoring_padding


def test_the_padding_row_of_an_embedding_counts_as_one_with_a_gradient() -> None:
    module = nn.Sequential(nn.Embedding(4, 2, padding_idx=1), nn.Embedding(4, 2), nn.Linear(2, 2))
    gradient = torch.zeros(4, 2)
    assert ignoring_padding(module, "0.weight", gradient)[:, 0].tolist() == [0, 1, 0, 0]
    assert ignoring_padding(module, "1.weight", gradient) is gradient
    assert ignoring_padding(module, "2.bias", gradient) is gradient
    assert not gradient.any()


def test_a_sparse_gradient_becomes_dense() -> None:
    module = nn.Sequential(nn.Embedding(4, 2, padding_idx=1))
    sparse = torch.zeros(4, 2).to_sparse()
    assert ignoring_padding(module, "0.weight", sparse)[1].tolist() == [1, 1]
