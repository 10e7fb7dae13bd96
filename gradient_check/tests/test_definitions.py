"""Of two parameters in one memory, the line is named that puts them there."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gradient_check import check_gradients
from gradient_check.exam.known.hosts import squares
from gradient_check.tests.present import present

IDS = torch.randint(0, 10, (3, 4), generator=torch.Generator().manual_seed(0))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(10, 6), nn.Linear(6, 10, bias=False)
        self.tie()

    def tie(self) -> None:
        """Let both have one memory."""

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(torch.tanh(self.words(ids)))


class ByData(Tied):
    def tie(self) -> None:
        nn.init.normal_(self.out.weight)
        nn.init.normal_(self.words.weight)
        self.out.weight.data = self.words.weight.data  # here


class ByParameter(Tied):
    def tie(self) -> None:
        self.out.weight = nn.Parameter(self.words.weight.data)  # here


class Viewed(Tied):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(self.words.weight.detach()[:, :3])  # here

    def forward(self, ids: Tensor) -> Tensor:
        return super().forward(ids) * self.table.sum()


@pytest.mark.parametrize("kind", [ByData, ByParameter, Viewed])
def test_the_line_that_ties_two_parameters_is_named(kind: Any) -> None:
    report = check_gradients(kind(), IDS, squares)
    (finding,) = (f for f in report.findings if f.code == "tied-data")
    assert present(finding.line).endswith("# here")
