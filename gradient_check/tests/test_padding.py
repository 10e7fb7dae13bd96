"""The padding row of an embedding, which gets no gradient, is no fault of its own."""

import torch
from torch import nn
from torch.nn import functional as F

from gradient_check import check_gradients
from gradient_check.instruments.padding import drop_padding, ignoring_padding


class Tied(nn.Module):
    """A language model whose table is its head too, and whose texts hold the padding's token."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 4, padding_idx=2)
        self.mix = nn.Linear(4, 4)
        self.head = nn.Linear(4, 8, bias=False)
        self.head.weight = self.table.weight
        nn.init.normal_(self.table.weight)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.mix(self.table(tokens)).tanh())


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


def test_a_padding_row_with_a_heads_gradient_is_left_out() -> None:
    module = nn.Sequential(nn.Embedding(4, 2, padding_idx=1), nn.Linear(2, 2))
    gradient = torch.ones(4, 2)
    assert drop_padding(module, "0.weight", gradient)[:, 0].tolist() == [1, 0, 1, 1]
    assert drop_padding(module, "1.bias", gradient) is gradient


def test_a_tied_table_whose_texts_hold_the_padding_token_is_healthy() -> None:
    torch.manual_seed(0)
    tokens = torch.tensor([[1, 2, 3, 2], [2, 4, 2, 5]])

    def loss(module: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        outputs = module(batch[:, :-1]).flatten(0, 1)
        return F.cross_entropy(outputs, batch[:, 1:].flatten())

    report = check_gradients(Tied(), tokens, loss)
    assert report.passed, str(report)
